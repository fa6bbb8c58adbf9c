"""Teaching on targets."""
