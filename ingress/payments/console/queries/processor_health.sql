-- What workers say of processors, and what routers believe. One row for each processor.
select h.processor, h.as_of, h.window_s, h.succeeded, h.declined, h.failed, h.unknown, h.breaker,
       h.as_of > now() - %(kept)s * interval '1 second' as is_fresh
from processor_health h order by h.processor limit %(limit)s
