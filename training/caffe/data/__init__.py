"""What Caffe's data layers give: records of LMDB, lists, folders, .npz and HDF5, transformed, in batches."""
