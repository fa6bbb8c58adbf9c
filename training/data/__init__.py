"""Samples to learn from: arrays in memory and folders of pictures, split, augmented and handed out in batches."""
