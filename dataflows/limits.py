"""Bounds of owners, workers and followers of streams."""

from __future__ import annotations

from typing import Final

# --- owner
BATCH_MESSAGES_MAX: Final = 6_000  # what several commands of a round change is written once
BATCH_BYTES_MAX: Final = 4 * 1024 * 1024
BATCH_POLL_TIMEOUT_MS: Final = 20
OWNER_IDLE_WAIT_MS: Final = 500  # of the reader while nothing comes: so soon it hears that the owner is to stop
OWNER_READ_GAP_MS: Final = 10  # between two reads that find commands: each is a transaction and some requests to Kafka
OWNER_READ_GAP_OF_FEW_MS: Final = 20  # while a read finds few commands, and the one before found several
READ_FEW: Final = 5  # commands that are worth a transaction
TURNS_READ_GAP_MS: Final = 1  # the same where callers take turns: beside one that sends on and on all wait so long
OWNER_LANE_REST_MS: Final = 2_000  # of a lane that nobody wakes, and with nothing left to acknowledge
BATCHES_AHEAD_MAX: Final = 3  # full ones, decoded while Postgres works on the ones before
ROUND_MESSAGES_ENOUGH: Final = 500  # with so many commands a round takes no further partition, and waits for none
ROUND_GATHER_MS: Final = 5  # the longest that fewer wait for others while another lane is at work
TURN_UNITS: Final = 16  # of a caller, where callers take turns: a command is one, and each KiB of it
TURNS_OF_CALLER_UNITS_MAX: Final = 64  # in one round, while others have commands, too, or lately had some
TURNS_ROUND_UNITS: Final = 500  # of one partition
TURNS_PAUSE_MS: Final = 50  # between rounds of a caller alone that lately had most of the work, and others some, too
LATELY_WINDOW_S: Final = 0.25  # lately is this window and the one before
NOISE_WINDOW_S: Final = 10.0
NOISE_SHARE_MIN: Final = 0.2  # of what was done: below it nobody is noisy
NOISE_SHARE_MAX: Final = 0.5  # and above it whoever has commands left
NOISE_FAIR_SHARES: Final = 3  # between the two: so many fair shares
NOISE_AGAIN_S: Final = 600  # windows further apart are not of one occasion
NOISE_MOVE_WINDOWS: Final = 3  # of one occasion: then a move is proposed
PUBLISH_BACKLOG_MAX: Final = 20_000  # committed, not yet acknowledged events of one process: past it, stop reading
OWNER_JOIN_TIMEOUT_S: Final = 60.0  # outside its consumer group for so long, an owner starts over with a new consumer
OWNER_RETRY_MAX: Final = 1  # retries of a whole batch before it is bisected
TRANSACTIONS_UNTIL_LARGER: Final = 20  # of the size that followed one that took too long
OWNER_DATABASE_BACKOFF_MAX_MS: Final = 2_000
OWNER_DRAIN_TIMEOUT_S: Final = 10
OWNER_LEAVE_TIMEOUT_S: Final = 8.0  # then the group excludes who said nothing; well before a supervisor kills
HALTED_POLL_INTERVAL_S: Final = 1
SENDERS_LOOK_INTERVAL_S: Final = 1.0  # within which a producer that was removed is not taken any more
REFUSED_RECORDS_KEPT_MAX: Final = 1_000  # of a partition; what is refused after that is only counted
REFUSED_RECORD_BYTES_MAX: Final = 4_096  # that are kept of each
RECORD_BYTES_MAX: Final = 1_048_576  # of a command or usage: as a broker takes it, but compressed it may be thousands
TOPIC_WATCH_INTERVAL_S: Final = 10  # between two looks whether the topic still holds what is read next
#: without a turn, a transaction or a word from Kafka that is waited for: then a lane hangs
OWNER_LANE_SILENT_MAX_S: Final = 60.0
OWNER_LANES: Final = 4  # batches of different partitions that one process has in work at once
OWNER_COLLECT_ALLOCATIONS: Final = 500_000  # container objects that came and stayed between two collections
OWNER_COLLECT_GENERATIONS: Final = 20

# --- publishing and replies of an owner
RESULTS_PER_RECORD_MAX: Final = 400
RESULT_RECORD_BYTES_MAX: Final = 512 * 1024
# between two looks for positions that no claim has carried for so long: to store each is a commit
PUBLISH_MARK_INTERVAL_MS: Final = 500
DEAD_LETTERS_RESUME_MAX: Final = 500
PUBLISH_AGAIN_INTERVAL_S: Final = 1.0  # after Kafka has refused an event: then its partition is published again

# --- workers
WORKER_EVENTS_MAX: Final = 500  # of one reading of a service's worker
WORKER_POLL_MS: Final = 500

# --- streams
READ_AHEAD_POLL_S: Final = 0.1  # between two looks whether who waits for a place among them shall stop
STREAM_RETRY_S: Final = 0.5  # after an error, before a stream is read again
READ_AHEAD_MAX: Final = 2  # reads of a stream whose batches wait for the database
OWNER_CLOCK_OFF_MAX_S: Final = 60  # of the database: decided by a clock further away, times and deadlines are wrong
