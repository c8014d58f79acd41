-- A service that is added brings a sink of ClickHouse by its declaration: who feeds it makes its fence.
grant insert on sink_fence to millrace_sink, millrace_operator;
