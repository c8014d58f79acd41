"""Avro: schemas from declarations, codecs compiled from schemas; published schemas lie beside them."""
