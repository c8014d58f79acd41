-- GET /v1/processors: what the workers told lately of every processor. A row for each; the whole table is read.
select processor, (extract(epoch from as_of) * 1000000)::bigint as as_of, window_s, breaker, succeeded, declined, failed,
       unknown
from processor_health
where as_of > now() - %(kept_s)s * interval '1 second'
