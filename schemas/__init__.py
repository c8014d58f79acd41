"""What crosses a boundary: records, codecs, topics, operations, validation, errors, limits."""
