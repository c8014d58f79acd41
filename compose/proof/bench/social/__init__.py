"""Social posts: fan-out, reads of homes, uploads and renditions."""
