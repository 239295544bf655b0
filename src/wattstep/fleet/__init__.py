"""Where a run happens: a child process of this machine."""
