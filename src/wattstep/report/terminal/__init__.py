"""Terminal output, one file a command."""
