"""The data of the workloads: official sets that lie on disk, and stand-ins from real material."""
