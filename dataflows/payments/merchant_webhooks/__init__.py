"""Tells merchants what happened: events of payments to the endpoints that they gave us.

An event becomes one row for each endpoint that wants it, in the transaction that moves the position in the stream; a
sender delivers the rows, at least once each, in the order of each object. Start reading at ``worker``.
"""
