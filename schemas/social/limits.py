"""Bounds of social posts, in every layer."""

from __future__ import annotations

from typing import Final

# --- social posts
POST_TEXT_LENGTH_MAX: Final = 5_000
POST_MEDIA_MAX: Final = 4
POST_MENTIONS_MAX: Final = 20  # users that one post tells
POST_COUNTED_MAX: Final = 1_000  # likes and reposts that are counted one by one, and replies that are looked at
DISPLAY_NAME_LENGTH_MAX: Final = 100
HOME_POSTS_KEPT: Final = 128  # the newest, that the store of homes holds: some six pages; older ones Postgres has
HOME_POSTS_SPARE: Final = 32  # so many more before a home is shortened to these, all at once
BACKFILL_POSTS_MAX: Final = 100  # of an author, when somebody begins to follow
PUSH_FOLLOWERS_MAX: Final = 500  # of a pushed author; above, readers pull its posts; below half of it, no more
FANOUT_CHUNK_FOLLOWERS: Final = 1_000
FANOUT_AUTHORS_AT_ONCE: Final = 50  # whose next followers one statement reads
FANOUT_POSTS_AT_ONCE: Final = 64  # of one author in one reading; more of them wait, behind everybody else's
FANOUT_SEEN_S: Final = 86_400  # whose home was read since then has a new post at once, all others after them
#: of what waits, within some five seconds; past it homes end, and their readers build them from Postgres
FANOUT_WAITING_DELIVERIES_MAX: Final = 1_000_000
FANOUT_TASK_DELIVERIES: Final = 10_000  # of one that waits
FANOUT_TASKS_AT_ONCE: Final = 4  # of each kind, between two readings of events: a fifth of a second
MEASURES_FLUSH_S: Final = 10  # what fan-out counted becomes rows for analysts
MEASURES_AT_ONCE: Final = 5_000  # rows that get their places at once
FANOUT_LOOK_S: Final = 5.0  # for what another process left waiting
HOME_DELIVERIES_AT_ONCE: Final = 2_000  # of one call of Valkey, 5 to 10 ms in which it serves nobody else
HOME_DELIVERIES_SENT_MAX: Final = 20_000  # before their answers are read, well within HOME_TIMEOUT_MS
HOME_TIMEOUT_MS: Final = 1_000  # of the store of homes; without it readers pull
HOME_EQUAL_TIMES: Final = 16  # posts of one microsecond that a page may begin among
HOME_STREAM_INTERVAL_S: Final = 1.0  # between two looks at a home for one stream, while events come
HOME_STREAM_POSTS_MAX: Final = 200  # of one look: so many may come between two of them
HOME_STREAM_TOLD_MAX: Final = 800  # posts that a stream knows it has told
HOME_STREAM_MARKS_MAX: Final = 64  # of these, that the id of an event names: a newest page, and what came meanwhile
HOME_STREAM_BYTES_MAX: Final = 1024 * 1024  # of one stream, which then ends and is opened again where it ended
HOME_STREAM_LOOKS: Final = 5  # so many after the last event
HOME_STREAM_UNASKED_S: Final = 5.0  # and then, while none comes
HOME_TTL_S: Final = 14 * 86_400  # of a home that nobody reads
#: of the server in use; past it no home is begun, for counters may lie there. A server that evicts has none
HOMES_BEGUN_MEMORY_PERCENT: Final = 75
HOMES_KEPT_MEMORY_PERCENT: Final = 87  # and past this a home ends rather than grow
FORGOTTEN_HOMES_MAX: Final = 20_000  # out of which a deleted post is taken: less than a second
FORGOTTEN_NOTIFICATIONS: Final = 5_000  # of a deleted post, at once
#: posts that are examined beyond those that a page has room for, round by round; then the page is short. Of most pages
#: nearly all is shown, and each post that is examined costs as much as one that is shown
TIMELINE_MARGINS: Final = (4, 20, 20, 20, 20)
PUBLIC_SNAPSHOT_POSTS: Final = 100  # that the public timeline has while Postgres is away
PUBLIC_SNAPSHOT_EVERY_S: Final = 1.0  # between two readings of them
PUBLIC_SNAPSHOT_ASKED_S: Final = 60.0  # so long after the last reader
PUBLIC_SNAPSHOT_AGE_MAX_S: Final = 5.0  # then nobody can know any more what is public
PUBLIC_SNAPSHOT_BLOCKS_MAX: Final = 1_000  # of an author, in each direction; one with more is left out
SEARCH_TEXT_LENGTH_MAX: Final = 200
SEARCH_MATCHES_FEW: Final = 1_000  # posts with the same words; of more, the newest are looked for in windows of time
#: how far back they go, until a page is full; then all are read. Each reads some eight times what the one before did
SEARCH_WINDOWS_S: Final = tuple(60 * 8**n for n in range(7))
SEARCH_POSTGRES_POOL_MAX: Final = 3  # of one process, apart from all other reads
SEARCH_STATEMENT_TIMEOUT_MS: Final = 3_000
SEARCHES_OF_USER_MAX: Final = 2  # at once, at one process

# --- pages of users
APP_SESSION_S: Final = 8 * 3_600  # or as long as the token that opened it, if that is shorter
APP_FORM_BYTES_MAX: Final = 64 * 1024  # a post's text, each character written as up to twelve
APP_FORM_FIELDS_MAX: Final = 20
APP_STATIC_KEPT_S: Final = 300
APP_PART_BYTES: Final = 8 * 1024 * 1024  # of an upload from a page: what is sent again when a connection breaks

# --- media of posts
MEDIA_BYTES_MAX: Final = 512 * 1024 * 1024
MEDIA_PARTS_MAX: Final = 10_000
MEDIA_PART_BYTES_MIN: Final = 512  # but for the last; 1 KiB is what the contract promises to take
MEDIA_UPLOAD_BODY_BYTES_MAX: Final = 1024 * 1024  # of the command that names all parts
MEDIA_URL_TTL_MAX_S: Final = 900  # of a part
MEDIA_FRESH_URL_S: Final = 30  # at least so long is one good that is asked for again
MEDIA_PUBLIC_AGE_S: Final = 10  # what a cache may keep: by then a hidden medium is nowhere
MEDIA_CACHE_FETCH_S: Final = 5  # a cache waits no longer for the next byte of the origin
MEDIA_CACHE_SLACK_S: Final = 5  # and has the last one by then
MEDIA_CACHE_BYTES: Final = 256 * 1024 * 1024
MEDIA_HELD_BYTES: Final = 1024 * 1024  # of a part, before they are hashed and written
MEDIA_DRAFT_S: Final = 3_600  # then its writer is gone
MEDIA_DISK_KEPT_BYTES: Final = 512 * 1024 * 1024  # that media leave: the supervisor wants it for its reserve
MEDIA_CHUNK_BYTES: Final = 256 * 1024
MEDIA_PIXELS_MAX: Final = 50_000_000
MEDIA_FRAMES_MAX: Final = 100
MEDIA_RENDERING_CPU_S: Final = 30  # of the sandboxed process
MEDIA_RENDERING_WAIT_S: Final = 90
MEDIA_SANDBOX_MEDIA_MAX: Final = 500  # that one forks for; then another one, at other places in memory
MEDIA_SANDBOX_LOOK_S: Final = 0.005  # at a process of a medium that has told all it tells
MEDIA_SANDBOX_END_S: Final = 5.0
MEDIA_RENDERING_MEMORY_BYTES: Final = 2 * 1024 * 1024 * 1024
MEDIA_RENDERING_FILE_BYTES: Final = 64 * 1024 * 1024
MEDIA_MANIFEST_LENGTH_MAX: Final = 16 * 1024
MEDIA_THUMB_PIXELS: Final = 320  # the longer side
MEDIA_FULL_PIXELS: Final = 2_048
MEDIA_VIDEO_CPU_S: Final = 300  # of the sandboxed process
MEDIA_VIDEO_WAIT_S: Final = 400
MEDIA_VIDEO_S_MAX: Final = 300
MEDIA_VIDEO_LADDER: Final = (240, 480, 720)  # the shorter sides of films
MEDIA_VIDEO_STEP: Final = 1.25  # a film is at least so much larger than the next smaller one
#: of all films of a video, some 100 s of a core; larger ones are left out past it: of what is longer than 4 min
MEDIA_VIDEO_PIXELS_ENCODED_MAX: Final = 10_000_000_000
MEDIA_SCANS_AT_ONCE: Final = 2  # of one scanner
MEDIA_SCAN_LEASE_S: Final = 30  # renewed while it lasts; then its scanner is dead, and another one may take it
MEDIA_SCAN_AGAIN_MAX_S: Final = 120  # between two scans of one medium
MEDIA_CRASHES_MAX: Final = 6  # of its decoder; then a medium is rejected, within some 3 minutes
MEDIA_KILLS_MAX: Final = 30  # kills of its decoder, as by a kernel without memory; then the same, within about an hour
MEDIA_WANTED_LOOK_S: Final = 1.0  # how often is looked whether a scan under way is still of use
MEDIA_SEEN_LENGTH_MAX: Final = 200  # of what operators are told of a scan
MEDIA_SCAN_POLL_S: Final = 0.2
MEDIA_SCAN_IDLE_S: Final = 0.5  # the same while no upload comes
MEDIA_SWEEP_S: Final = 5.0  # how often what nobody may see is looked for
MEDIA_SWEEP_MAX: Final = 200
MEDIA_SWEEP_AGAIN_S: Final = 60  # of what could not be taken away
MEDIA_ORPHAN_S: Final = 24 * 3_600
MEDIA_UPLOADS_MAX: Final = 256  # parts that come in at one process of the origin, each of which holds MEDIA_HELD_BYTES
MEDIA_PACE_BYTES_S: Final = 16 * 1024  # a part may come as slowly as this, after BODY_READ_S for whatever comes first
MEDIA_POSTGRES_POOL_MAX: Final = 8
CLAMD_TIMEOUT_S: Final = 30.0
CLAMD_BYTES_S: Final = 8 * 1024 * 1024  # and so long beside it: the largest file has less than MaxScanTime, 120 s
CLAMD_SEEN_S: Final = 600.0  # so long it is taken to look at files as long as it was seen to
CLAMD_ANSWER_BYTES_MAX: Final = 4_096

# --- moderation and erasure of posts
MODERATION_LOOK_S: Final = 60  # a URL of a picture at the desk
MODERATION_LABELS_MAX: Final = 10  # of one object, beside each other
CERTIFICATE_LENGTH_MAX: Final = 8_192
PROPAGATION_POLL_S: Final = 0.5
PROPAGATION_AT_ONCE: Final = 20  # decisions looked at in one round
PROPAGATION_RETRY_MAX_S: Final = 15  # between two looks at one consumer, for ever
PROPAGATION_MEDIA_MAX: Final = 100  # of one object, whose old URLs are asked for
PROPAGATION_VERSIONS: Final = 3  # access versions before the present one that must be dead
PROPAGATION_READERS: Final = 20  # followers in whose name is looked
PROPAGATION_SECONDS_TOLD: Final = (1, 2, 5, 10, 15, 30, 60, 300)  # bounds of the metric of how long decisions took
PROPAGATION_FETCH_S: Final = 5.0
PROPAGATION_IDLE_S: Final = 2.0  # of a connection; Varnish ends its own after five
USER_KEYS_CACHED_S: Final = 1  # what an ingress knows of a user's key is no older
USER_KEYS_CACHED_MAX: Final = 20_000
ERASURE_ROWS: Final = 500  # of one step
ERASURE_MEDIA: Final = 500  # of one user that are looked for in one turn; then others have theirs
ERASURE_MEDIA_WHOLE: Final = 50  # of which every URL is asked for; of the others, those that are decided apart
ERASURE_MEDIA_AT_ONCE: Final = (
    16  # that are looked for: a bucket answers in some 15 ms, and each is asked for three times
)
ERASED_AGAIN_S: Final = 60.0  # between two looks for erased users who are there again
ERASED_READ: Final = 10_000  # of them in one statement
ERASED_ANSWER_BYTES: Final = 40  # of an answer that says nothing any more
EXPORT_ROWS: Final = 200  # read at once
