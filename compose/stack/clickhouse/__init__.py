"""The embedded ClickHouse: the chdb engine behind a front that speaks ClickHouse's HTTP interface."""
