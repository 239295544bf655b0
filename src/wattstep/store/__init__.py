"""A run on disk: journals while it records, Parquet once it is closed."""
