"""Training samples: arrays in memory and folders of pictures, split, augmented and cut into batches."""
