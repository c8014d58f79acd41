"""Media: what owners do with uploads, and the worker that scans them and makes what is served."""
