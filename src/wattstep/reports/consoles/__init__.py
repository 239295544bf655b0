"""What is printed in a terminal, one file a command."""
