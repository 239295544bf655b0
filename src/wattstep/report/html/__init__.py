"""Pages that open in a browser, offline: one file each, or one file a section."""
