"""The store in a browser: what a folder holds, as pages that only its owner's browser may ask for."""
