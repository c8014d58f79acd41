/* The same decisions as limiter/spending/spender.py, which says what they mean, compiled: a lease is spent without a call of the
 * interpreter, and its numbers are integers in the objects themselves. Chosen when it could be built; see spending.py. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <structmember.h>
#include <time.h>

#if !defined(__linux__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "limiter/spending/spender.py is used here: records are little-endian, and the clock is CLOCK_BOOTTIME of Linux"
#endif

#define RECORD_BYTES 24 /* limiter.spending.ring.RECORD */
#define ENTRY_BYTES 24  /* limiter.frames.frames.ENTRY */
#define ROW_BYTES 32    /* limiter.frames.frames.ROW */
#define IDENTITY_BYTES 16
#define HASH_BYTES 8    /* limiter.spending.ring.IDENTITY */
#define IDENTIFIED 64   /* limiter.spending.ring */
#define SLOT_SHIFT 8    /* limiter.spending.ring */
#define NOT_SPENT -1
#define FAILED -2
#define UNSIGNED_32_MAX 0xffffffffLL

typedef struct {
    PyObject_HEAD
    long long left, refill_below, lease_ends_ns, lease_flags, remaining, reset_ms, version;
    PyObject *id;
} Bucket;

typedef struct {
    PyObject_HEAD
    PyObject *single, *name;
    Py_hash_t name_hash;
    long long row;
    unsigned long long seed;
} Key;

typedef struct {
    PyObject_HEAD
    PyObject *buffer;
    long long at, begin, end, turns, identities;
} Ring;

typedef struct {
    uint64_t print; /* 96 bits of what identifies the entry; 0: an empty place */
    uint32_t more, cost;
} Entry;

typedef struct {
    Entry *entries; /* open addressing; a power of two, never more than 5/8 full */
    size_t size, used;
} Generation;

typedef struct {
    PyObject_HEAD
    Generation (*shards)[2]; /* young, old */
    size_t count;            /* of shards, a power of two */
} Identities;

typedef struct {
    PyObject_HEAD
    PyObject *keys, *under_way, *doubtful, *refill_soon, *otherwise;
    PyTypeObject *decision;
    Identities *identities;
    Ring *ring;
    long long wall_offset_us;
} Spender;

static PyTypeObject BucketType, KeyType, RingType, IdentitiesType, SpenderType;

static long long
lease_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now); /* limiter.store.lease_clock */
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* -- identities -- */

#define FIRST_SIZE 64

typedef struct {
    size_t shard;
    uint64_t print;
    uint32_t more;
} Place;

static uint64_t
mixed(uint64_t value) /* the finalizer of MurmurHash3 */
{
    value = (value ^ (value >> 33)) * 0xff51afd7ed558ccdULL;
    value = (value ^ (value >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    return value ^ (value >> 33);
}

/* Texts are told apart by their keyed 64-bit hashes, which Python keeps with them: two of one key are taken for the same
 * once in 2^64 pairs, and then the second one is not charged. An identity is never forgotten for another. */
static Place
place_of(Identities *self, Py_hash_t of_name, Py_hash_t of_identity)
{
    uint64_t print = mixed((uint64_t)of_identity + mixed((uint64_t)of_name));
    uint32_t more = (uint32_t)mixed((uint64_t)of_name ^ ((uint64_t)of_identity << 1));
    return (Place){(print >> 58) & (self->count - 1), print ? print : 1, more};
}

static int
place_of_texts(Identities *self, PyObject *name, PyObject *request_id, Place *place)
{
    Py_hash_t of_name = PyObject_Hash(name), of_identity = PyObject_Hash(request_id);
    if (of_name == -1 || of_identity == -1)
        return FAILED;
    *place = place_of(self, of_name, of_identity);
    return 0;
}

/* Where the entry is, or the empty place where it belongs. */
static Entry *
entry_of(Generation *generation, const Place *place)
{
    size_t at = place->print & (generation->size - 1);
    for (;; at = (at + 1) & (generation->size - 1)) {
        Entry *entry = &generation->entries[at];
        if (!entry->print || (entry->print == place->print && entry->more == place->more))
            return entry;
    }
}

static int
grow(Generation *generation)
{
    size_t size = generation->size ? 2 * generation->size : FIRST_SIZE;
    Entry *entries = PyMem_Calloc(size, sizeof(Entry));
    if (entries == NULL) {
        PyErr_NoMemory();
        return FAILED;
    }
    Generation grown = {entries, size, generation->used};
    for (size_t at = 0; at < generation->size; at++) {
        Entry *entry = &generation->entries[at];
        if (entry->print) {
            Place place = {0, entry->print, entry->more};
            *entry_of(&grown, &place) = *entry;
        }
    }
    PyMem_Free(generation->entries);
    *generation = grown;
    return 0;
}

static Entry *
known(Identities *self, const Place *place)
{
    for (int old = 0; old < 2; old++) {
        Generation *generation = &self->shards[place->shard][old];
        Entry *entry = generation->used ? entry_of(generation, place) : NULL;
        if (entry != NULL && entry->print)
            return entry;
    }
    return NULL;
}

/* Has the processor fetch the memory where ``known`` and ``add`` will look. */
static void
fetch(Identities *self, const Place *place)
{
    for (int old = 0; old < 2; old++) {
        Generation *generation = &self->shards[place->shard][old];
        if (generation->used)
            __builtin_prefetch(&generation->entries[place->print & (generation->size - 1)], 1);
    }
}

static int
add(Identities *self, const Place *place, uint32_t cost)
{
    Generation *young = &self->shards[place->shard][0];
    if ((young->used + 1) * 8 > young->size * 5 && grow(young) < 0)
        return FAILED;
    Entry *entry = entry_of(young, place);
    young->used += !entry->print;
    *entry = (Entry){place->print, place->more, cost};
    return 0;
}

static PyObject *
Identities_cost_of(Identities *self, PyObject *args)
{
    PyObject *name, *request_id;
    Place place;
    if (!PyArg_ParseTuple(args, "UU", &name, &request_id) || place_of_texts(self, name, request_id, &place) < 0)
        return NULL;
    Entry *entry = known(self, &place);
    return PyLong_FromLongLong(entry == NULL ? -1 : (long long)entry->cost);
}

static PyObject *
Identities_add(Identities *self, PyObject *args)
{
    PyObject *name, *request_id;
    unsigned int cost;
    Place place;
    if (!PyArg_ParseTuple(args, "UUI", &name, &request_id, &cost) || place_of_texts(self, name, request_id, &place) < 0)
        return NULL;
    return add(self, &place, cost) < 0 ? NULL : Py_NewRef(Py_None);
}

static Generation *
shard_of(Identities *self, PyObject *number)
{
    Py_ssize_t shard = PyNumber_AsSsize_t(number, PyExc_IndexError);
    if (shard == -1 && PyErr_Occurred())
        return NULL;
    if (shard < 0 || (size_t)shard >= self->count) {
        PyErr_SetString(PyExc_IndexError, "there is no such shard");
        return NULL;
    }
    return self->shards[shard];
}

static PyObject *
Identities_young(Identities *self, PyObject *number)
{
    Generation *pair = shard_of(self, number);
    return pair == NULL ? NULL : PyLong_FromSize_t(pair[0].used);
}

static PyObject *
Identities_turn(Identities *self, PyObject *number)
{
    Generation *pair = shard_of(self, number);
    if (pair == NULL)
        return NULL;
    Generation emptied = pair[1];
    if (emptied.used) /* its memory is used again: new pages cost more than the look-ups */
        memset(emptied.entries, 0, emptied.size * sizeof(Entry));
    emptied.used = 0;
    pair[1] = pair[0];
    pair[0] = emptied;
    return Py_NewRef(Py_None);
}

static void
Identities_dealloc(Identities *self)
{
    for (size_t shard = 0; self->shards != NULL && shard < self->count; shard++) {
        PyMem_Free(self->shards[shard][0].entries);
        PyMem_Free(self->shards[shard][1].entries);
    }
    PyMem_Free(self->shards);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *
Identities_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
    static char *expected[] = {"shards", NULL};
    Py_ssize_t count;
    if (!PyArg_ParseTupleAndKeywords(args, names, "n", expected, &count))
        return NULL;
    if (count <= 0 || count > FIRST_SIZE || (count & (count - 1))) {
        PyErr_SetString(PyExc_ValueError, "shards are a power of two, at most 64");
        return NULL;
    }
    Identities *self = (Identities *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->count = (size_t)count;
    self->shards = PyMem_Calloc(self->count, sizeof(*self->shards));
    if (self->shards == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

/* -- what other gateways know an identity by: XXH64, by its specification -- */

#define PRIME_1 0x9e3779b185ebca87ULL
#define PRIME_2 0xc2b2ae3d27d4eb4fULL
#define PRIME_3 0x165667b19e3779f9ULL
#define PRIME_4 0x85ebca77c2b2ae63ULL
#define PRIME_5 0x27d4eb2f165667c5ULL

static uint64_t
rotated(uint64_t value, int bits)
{
    return value << bits | value >> (64 - bits);
}

static uint64_t
rounded(uint64_t lane, const char *from)
{
    uint64_t word;
    memcpy(&word, from, 8);
    return rotated(lane + word * PRIME_2, 31) * PRIME_1;
}

static uint64_t
xxh64(const char *text, size_t size, uint64_t seed)
{
    const char *end = text + size;
    uint64_t hash = seed + PRIME_5;
    if (size >= 32) {
        uint64_t lanes[4] = {seed + PRIME_1 + PRIME_2, seed + PRIME_2, seed, seed - PRIME_1};
        for (; end - text >= 32; text += 32)
            for (int at = 0; at < 4; at++)
                lanes[at] = rounded(lanes[at], text + 8 * at);
        hash = rotated(lanes[0], 1) + rotated(lanes[1], 7) + rotated(lanes[2], 12) + rotated(lanes[3], 18);
        for (int at = 0; at < 4; at++)
            hash = (hash ^ rotated(lanes[at] * PRIME_2, 31) * PRIME_1) * PRIME_1 + PRIME_4;
    }
    hash += size;
    for (; end - text >= 8; text += 8)
        hash = rotated(hash ^ rounded(0, text), 27) * PRIME_1 + PRIME_4;
    if (end - text >= 4) {
        uint32_t word;
        memcpy(&word, text, 4);
        hash = rotated(hash ^ word * PRIME_1, 23) * PRIME_2 + PRIME_3;
        text += 4;
    }
    for (; text < end; text++)
        hash = rotated(hash ^ (unsigned char)*text * PRIME_5, 11) * PRIME_1;
    hash = (hash ^ hash >> 33) * PRIME_2;
    hash = (hash ^ hash >> 29) * PRIME_3;
    return hash ^ hash >> 32;
}

/* -- one decision -- */

/* Under which a request is made: the object that was given, or the digits of an entry of a frame. */
typedef struct {
    PyObject *object; /* borrowed; NULL: only the digits are there */
    Py_hash_t hash;   /* as Python has it of the text */
    int is_none;
    char digits[2 * IDENTITY_BYTES];
} Request;

/* Where records go; held while decisions are made. */
typedef struct {
    Py_buffer view;
    Ring *ring;
} Records;

static int
request_of(PyObject *object, Request *request)
{
    request->object = object;
    request->is_none = object == Py_None;
    request->hash = request->is_none ? 0 : PyObject_Hash(object);
    return request->hash == -1 ? FAILED : 0;
}

static int
open_records(Spender *self, Records *records)
{
    records->ring = self->ring;
    return PyObject_GetBuffer(self->ring->buffer, &records->view, PyBUF_WRITABLE) < 0 ? FAILED : 0;
}

/* Whether other gateways are told of an identity that this lease is charged for. */
static int
is_told(Spender *self, Bucket *bucket, const Request *request)
{
    return !request->is_none && self->ring->identities && bucket->lease_flags >> SLOT_SHIFT;
}

static int
hash_of(Key *key, const Request *request, uint64_t *hash)
{
    Py_ssize_t size = sizeof(request->digits);
    const char *text = request->object == NULL ? request->digits : PyUnicode_AsUTF8AndSize(request->object, &size);
    if (text == NULL)
        return FAILED;
    *hash = xxh64(text, (size_t)size, key->seed);
    return 0;
}

/* ``identity``: its hash, or NULL. */
static int
put_record(Spender *self, Records *to, Key *key, uint32_t cost, Bucket *bucket, long long now_ns,
           const uint64_t *identity)
{
    Ring *ring = to->ring;
    char *begin = to->view.buf;
    if (ring->at < 0 || ring->at + RECORD_BYTES > to->view.len) {
        PyErr_SetString(PyExc_IndexError, "the next record is outside of the ring");
        return FAILED;
    }
    long long hash_at = identity == NULL ? 0 : ring->identities + (ring->at - ring->begin) / RECORD_BYTES * HASH_BYTES;
    if (hash_at < 0 || hash_at + HASH_BYTES > to->view.len) {
        PyErr_SetString(PyExc_IndexError, "the next identity is outside of the ring");
        return FAILED;
    }
    uint32_t row = (uint32_t)key->row, flags = (uint32_t)bucket->lease_flags;
    if (identity != NULL) {
        flags |= IDENTIFIED;
        memcpy(begin + hash_at, identity, HASH_BYTES);
    }
    int32_t left = bucket->left > INT32_MAX ? INT32_MAX : (int32_t)bucket->left;
    uint64_t at_us = (uint64_t)(now_ns / 1000 + self->wall_offset_us);
    char *record = begin + ring->at;
    memcpy(record, &row, 4);
    memcpy(record + 4, &cost, 4);
    memcpy(record + 8, &flags, 4);
    memcpy(record + 12, &left, 4);
    memcpy(record + 16, &at_us, 8);
    ring->at += RECORD_BYTES;
    if (ring->at == ring->end) {
        ring->at = ring->begin;
        ring->turns++;
    }
    return 0;
}

/* 1: the store has to say whether the identity was charged; 0: not; FAILED. */
static int
is_of_the_store(Spender *self, Key *key, const Request *request)
{
    if (!PyDict_GET_SIZE(self->under_way) && !PyDict_GET_SIZE(self->doubtful))
        return 0;
    PyObject *text = request->object == NULL ? PyUnicode_FromStringAndSize(request->digits, sizeof(request->digits))
                                             : Py_NewRef(request->object);
    PyObject *identity = text == NULL ? NULL : PyTuple_Pack(2, key->name, text);
    Py_XDECREF(text);
    if (identity == NULL)
        return FAILED;
    int found = PyDict_Contains(self->under_way, identity);
    if (found == 0)
        found = PyDict_Contains(self->doubtful, identity);
    Py_DECREF(identity);
    return found < 0 ? FAILED : found;
}

/* 1: the identity is new, and remembered; 0: it is not, or the store has to be asked; FAILED. */
static int
remember(Spender *self, Key *key, uint32_t cost, const Request *request)
{
    if (key->name == NULL) {
        PyErr_SetString(PyExc_AttributeError, "name");
        return FAILED;
    }
    Place place = place_of(self->identities, key->name_hash, request->hash);
    if (known(self->identities, &place) != NULL)
        return 0;
    int found = is_of_the_store(self, key, request);
    if (found != 0)
        return found < 0 ? FAILED : 0;
    return add(self->identities, &place, cost) < 0 ? FAILED : 1;
}

/* What is left of the lease that was spent, NOT_SPENT, or FAILED with an exception. */
static long long
spend(Spender *self, Records *records, Key *key, long long cost, const Request *request)
{
    if (key->single == NULL || !PyObject_TypeCheck(key->single, &BucketType))
        return NOT_SPENT;
    Bucket *bucket = (Bucket *)key->single;
    long long now = lease_clock_ns();
    if (cost < 0 || cost > UNSIGNED_32_MAX || bucket->left < cost || now >= bucket->lease_ends_ns)
        return NOT_SPENT;
    uint64_t hash;
    int told = is_told(self, bucket, request);
    if (!request->is_none) {
        if (told && hash_of(key, request, &hash) < 0)
            return FAILED;
        int is_new = remember(self, key, (uint32_t)cost, request);
        if (is_new <= 0)
            return is_new < 0 ? FAILED : NOT_SPENT;
    }
    bucket->left -= cost;
    long long left = bucket->left;
    if (put_record(self, records, key, (uint32_t)cost, bucket, now, told ? &hash : NULL) < 0)
        return FAILED;
    if (left < bucket->refill_below) {
        bucket->refill_below = 0;
        PyObject *done = PyObject_CallOneArg(self->refill_soon, (PyObject *)bucket);
        if (done == NULL)
            return FAILED;
        Py_DECREF(done);
    }
    return left;
}

/* One decision for a caller in this process. */
static long long
spend_one(Spender *self, Key *key, long long cost, PyObject *request_id)
{
    Request request;
    Records records;
    if (request_of(request_id, &request) < 0 || open_records(self, &records) < 0)
        return FAILED;
    long long left = spend(self, &records, key, cost, &request);
    PyBuffer_Release(&records.view);
    return left;
}

static PyObject *
allowed(Spender *self, Bucket *bucket, long long left)
{
    PyObject *decided = self->decision->tp_alloc(self->decision, 9);
    if (decided == NULL)
        return NULL;
    PyTuple_SET_ITEM(decided, 0, Py_NewRef(Py_True));
    PyTuple_SET_ITEM(decided, 1, PyLong_FromLongLong(bucket->remaining + left));
    PyTuple_SET_ITEM(decided, 2, PyLong_FromLongLong(bucket->reset_ms));
    PyTuple_SET_ITEM(decided, 3, PyLong_FromLong(0));
    PyTuple_SET_ITEM(decided, 4, Py_NewRef(bucket->id));
    PyTuple_SET_ITEM(decided, 5, PyLong_FromLongLong(bucket->version));
    PyTuple_SET_ITEM(decided, 6, Py_NewRef(Py_True));
    PyTuple_SET_ITEM(decided, 7, Py_NewRef(Py_False));
    PyTuple_SET_ITEM(decided, 8, Py_NewRef(Py_False));
    for (Py_ssize_t at = 1; at <= 5; at++) {
        if (PyTuple_GET_ITEM(decided, at) == NULL) {
            Py_DECREF(decided);
            return PyErr_NoMemory();
        }
    }
    return decided;
}

/* The key of that place, borrowed; NULL without an exception when it is not known. */
static Key *
key_of(Spender *self, PyObject *place)
{
    PyObject *key = PyDict_GetItemWithError(self->keys, place);
    if (key != NULL && !PyObject_TypeCheck(key, &KeyType)) {
        PyErr_SetString(PyExc_TypeError, "not a key");
        return NULL;
    }
    return (Key *)key;
}

static PyObject *
Spender_check_now(Spender *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 5) {
        PyErr_SetString(PyExc_TypeError, "check_now takes a tenant, a user, a route, a cost and an identity");
        return NULL;
    }
    PyObject *place = PyTuple_Pack(3, args[0], args[1], args[2]);
    if (place == NULL)
        return NULL;
    Key *key = key_of(self, place);
    Py_DECREF(place);
    if (key == NULL)
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    int overflow = 0;
    long long cost = PyLong_AsLongLongAndOverflow(args[3], &overflow);
    if (cost == -1 && PyErr_Occurred())
        return NULL;
    Py_INCREF(key);
    long long left = overflow ? NOT_SPENT : spend_one(self, key, cost, args[4]);
    PyObject *decided = NULL;
    if (left >= 0)
        decided = allowed(self, (Bucket *)key->single, left);
    else if (left == NOT_SPENT)
        decided = PyObject_CallFunctionObjArgs(self->otherwise, (PyObject *)key, args[3], args[4], NULL);
    Py_DECREF(key);
    return decided;
}

/* -- the entries of a frame -- */

#define AT_ONCE 16 /* entries whose memory is fetched before the first of them is decided */

typedef struct {
    const unsigned char *entries;
    PyObject *places; /* a list: what the connection calls its keys */
    PyObject *known;  /* a list as long: the keys of those that were found */
} Asked;

static uint32_t
number_of(const unsigned char *entry, int at)
{
    uint32_t number;
    memcpy(&number, entry + at, 4);
    return number;
}

static void
request_of_entry(const unsigned char *entry, Request *request)
{
    static const char digits[] = "0123456789abcdef";
    int any = 0;
    for (int at = 0; at < IDENTITY_BYTES; at++) {
        unsigned char byte = entry[8 + at];
        any |= byte;
        request->digits[2 * at] = digits[byte >> 4];
        request->digits[2 * at + 1] = digits[byte & 15];
    }
    request->object = any ? NULL : Py_None;
    request->is_none = !any;
    request->hash = any ? _Py_HashBytes(request->digits, sizeof(request->digits)) : 0;
}

/* Who they are, of the next entries. Their keys, buckets and identities lie anywhere in memory: all are fetched at once,
 * and not one after another. Nothing is decided, and nothing of Python runs. */
static void
prepare(Spender *self, const Asked *asked, Py_ssize_t at, int count, Request *requests)
{
    Key *keys[AT_ONCE];
    for (int n = 0; n < count; n++) {
        uint32_t number = number_of(asked->entries + (at + n) * ENTRY_BYTES, 0);
        keys[n] = number < PyList_GET_SIZE(asked->known) ? (Key *)PyList_GET_ITEM(asked->known, number) : NULL;
        __builtin_prefetch(keys[n]);
    }
    for (int n = 0; n < count; n++)
        request_of_entry(asked->entries + (at + n) * ENTRY_BYTES, &requests[n]);
    for (int n = 0; n < count; n++) {
        if (keys[n] == NULL || !PyObject_TypeCheck(keys[n], &KeyType))
            continue;
        for (size_t line = 0; keys[n]->single != NULL && line < sizeof(Bucket); line += 64)
            __builtin_prefetch((char *)keys[n]->single + line, 1);
        if (!requests[n].is_none) {
            Place place = place_of(self->identities, keys[n]->name_hash, requests[n].hash);
            fetch(self->identities, &place);
        }
    }
}

/* A new reference to the key of a number; NULL without an exception when it is not known. */
static Key *
key_of_number(Spender *self, const Asked *asked, uint32_t number)
{
    if (number >= PyList_GET_SIZE(asked->places) || number >= PyList_GET_SIZE(asked->known)) {
        PyErr_SetString(PyExc_IndexError, "the key was not named");
        return NULL;
    }
    PyObject *found = PyList_GET_ITEM(asked->known, number);
    if (PyObject_TypeCheck(found, &KeyType))
        return (Key *)Py_NewRef(found);
    Key *key = key_of(self, PyList_GET_ITEM(asked->places, number));
    if (key == NULL)
        return NULL;
    Py_INCREF(key);
    if (PyList_SetItem(asked->known, number, Py_NewRef(key)) == 0)
        return key;
    Py_DECREF(key);
    return NULL;
}

/* 1: decided, and its row is written; 0: not; FAILED. */
static int
spend_entry(Spender *self, Records *records, const Asked *asked, Py_ssize_t at, const Request *request, char *row)
{
    const unsigned char *entry = asked->entries + at * ENTRY_BYTES;
    Key *key = key_of_number(self, asked, number_of(entry, 0));
    if (key == NULL)
        return PyErr_Occurred() ? FAILED : 0;
    long long left = spend(self, records, key, number_of(entry, 4), request);
    if (left >= 0) {
        Bucket *bucket = (Bucket *)key->single;
        uint32_t flags = (uint32_t)bucket->lease_flags & 0xff;
        uint32_t version = bucket->version > UNSIGNED_32_MAX ? UINT32_MAX : (uint32_t)bucket->version;
        int64_t rest[3] = {bucket->remaining + left, bucket->reset_ms, 0};
        memcpy(row, &flags, 4);
        memcpy(row + 4, &version, 4);
        memcpy(row + 8, rest, 24);
    }
    Py_DECREF(key);
    return left >= 0 ? 1 : left == NOT_SPENT ? 0 : FAILED;
}

/* The number of the first entry from ``at`` on that is not decided, or how many there are; FAILED. */
static Py_ssize_t
spend_entries(Spender *self, const Asked *asked, Py_ssize_t at, Py_ssize_t count, char *rows)
{
    Request requests[AT_ONCE];
    Records records;
    if (open_records(self, &records) < 0)
        return FAILED;
    int done = 1;
    for (Py_ssize_t first = at; done == 1 && first < count; first = at) {
        int some = count - first < AT_ONCE ? (int)(count - first) : AT_ONCE;
        prepare(self, asked, first, some, requests);
        for (int n = 0; done == 1 && n < some; n++) {
            done = spend_entry(self, &records, asked, at, &requests[n], rows + at * ROW_BYTES);
            at += done == 1;
        }
    }
    PyBuffer_Release(&records.view);
    return done == FAILED ? FAILED : at;
}

static PyObject *
Spender_spend_entries(Spender *self, PyObject *args)
{
    Py_buffer body, rows;
    Py_ssize_t at;
    Asked asked;
    if (!PyArg_ParseTuple(args, "y*nO!O!w*", &body, &at, &PyList_Type, &asked.places, &PyList_Type, &asked.known,
                          &rows))
        return NULL;
    Py_ssize_t count = body.len / ENTRY_BYTES;
    asked.entries = body.buf;
    if (at < 0 || rows.len < count * ROW_BYTES) {
        PyErr_SetString(PyExc_ValueError, "there is no room for the rows");
        at = FAILED;
    } else
        at = spend_entries(self, &asked, at, count, rows.buf);
    PyBuffer_Release(&body);
    PyBuffer_Release(&rows);
    return at == FAILED ? NULL : PyLong_FromSsize_t(at);
}

static PyObject *
Spender_spend(Spender *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || !PyObject_TypeCheck(args[0], &KeyType)) {
        PyErr_SetString(PyExc_TypeError, "spend takes a key, a cost and an identity");
        return NULL;
    }
    int overflow = 0;
    long long cost = PyLong_AsLongLongAndOverflow(args[1], &overflow);
    if (cost == -1 && PyErr_Occurred())
        return NULL;
    long long left = overflow ? NOT_SPENT : spend_one(self, (Key *)args[0], cost, args[2]);
    return left == FAILED ? NULL : PyLong_FromLongLong(left);
}

/* -- types -- */

static int
Bucket_traverse(Bucket *self, visitproc visit, void *arg)
{
    Py_VISIT(self->id);
    return 0;
}

static int
Bucket_clear(Bucket *self)
{
    Py_CLEAR(self->id);
    return 0;
}

static int
Key_traverse(Key *self, visitproc visit, void *arg)
{
    Py_VISIT(self->single);
    Py_VISIT(self->name);
    return 0;
}

static int
Key_clear(Key *self)
{
    Py_CLEAR(self->single);
    Py_CLEAR(self->name);
    return 0;
}

static PyObject *
Key_name(Key *self, void *Py_UNUSED(closure))
{
    if (self->name == NULL) {
        PyErr_SetString(PyExc_AttributeError, "name");
        return NULL;
    }
    return Py_NewRef(self->name);
}

static int
Key_set_name(Key *self, PyObject *name, void *Py_UNUSED(closure))
{
    if (name == NULL || !PyUnicode_Check(name)) {
        PyErr_SetString(PyExc_TypeError, "the name of a key is a text");
        return -1;
    }
    Py_hash_t hash = PyObject_Hash(name);
    if (hash == -1)
        return -1;
    self->name_hash = hash; /* with the name, so that no decision reads the text */
    Py_XSETREF(self->name, Py_NewRef(name));
    return 0;
}

static int
Ring_traverse(Ring *self, visitproc visit, void *arg)
{
    Py_VISIT(self->buffer);
    return 0;
}

static int
Ring_clear(Ring *self)
{
    Py_CLEAR(self->buffer);
    return 0;
}

static int
Spender_traverse(Spender *self, visitproc visit, void *arg)
{
    Py_VISIT(self->keys);
    Py_VISIT(self->identities);
    Py_VISIT(self->under_way);
    Py_VISIT(self->doubtful);
    Py_VISIT(self->refill_soon);
    Py_VISIT(self->otherwise);
    Py_VISIT(self->decision);
    Py_VISIT(self->ring);
    return 0;
}

static int
Spender_clear(Spender *self)
{
    Py_CLEAR(self->keys);
    Py_CLEAR(self->identities);
    Py_CLEAR(self->under_way);
    Py_CLEAR(self->doubtful);
    Py_CLEAR(self->refill_soon);
    Py_CLEAR(self->otherwise);
    Py_CLEAR(self->decision);
    Py_CLEAR(self->ring);
    return 0;
}

static void
forget(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    Py_TYPE(self)->tp_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static int
Spender_init(Spender *self, PyObject *args, PyObject *names)
{
    static char *expected[] = {"keys",           "identities", "under_way",   "doubtful",  "ring",
                               "wall_offset_us", "decision",   "refill_soon", "otherwise", NULL};
    PyObject *keys, *identities, *under_way, *doubtful, *ring, *refill_soon, *otherwise;
    PyTypeObject *decision;
    long long wall_offset_us;
    if (!PyArg_ParseTupleAndKeywords(args, names, "O!O!O!O!O!LO!OO", expected, &PyDict_Type, &keys, &IdentitiesType,
                                     &identities, &PyDict_Type, &under_way, &PyDict_Type, &doubtful, &RingType, &ring,
                                     &wall_offset_us, &PyType_Type, &decision, &refill_soon, &otherwise))
        return -1;
    if (!PyType_IsSubtype(decision, &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "a decision is a tuple");
        return -1;
    }
    Spender_clear(self);
    self->keys = Py_NewRef(keys);
    self->identities = (Identities *)Py_NewRef(identities);
    self->under_way = Py_NewRef(under_way);
    self->doubtful = Py_NewRef(doubtful);
    self->refill_soon = Py_NewRef(refill_soon);
    self->otherwise = Py_NewRef(otherwise);
    self->decision = (PyTypeObject *)Py_NewRef(decision);
    self->ring = (Ring *)Py_NewRef(ring);
    self->wall_offset_us = wall_offset_us;
    return 0;
}

#define NUMBER(of, name) {#name, T_LONGLONG, offsetof(of, name), 0, NULL}
static PyMemberDef bucket_members[] = {
    NUMBER(Bucket, left),      NUMBER(Bucket, refill_below), NUMBER(Bucket, lease_ends_ns), NUMBER(Bucket, lease_flags),
    NUMBER(Bucket, remaining), NUMBER(Bucket, reset_ms),     NUMBER(Bucket, version),
    {"id_", T_OBJECT_EX, offsetof(Bucket, id), 0, NULL},     {NULL}};
static PyMemberDef key_members[] = {{"single", T_OBJECT, offsetof(Key, single), 0, NULL},
                                    NUMBER(Key, row),
                                    {"seed", T_ULONGLONG, offsetof(Key, seed), 0, NULL},
                                    {NULL}};
static PyGetSetDef key_name[] = {{"name", (getter)Key_name, (setter)Key_set_name, NULL, NULL}, {NULL}};
static PyMemberDef ring_members[] = {{"buffer", T_OBJECT_EX, offsetof(Ring, buffer), 0, NULL},
                                     NUMBER(Ring, at),
                                     NUMBER(Ring, begin),
                                     NUMBER(Ring, end),
                                     NUMBER(Ring, turns),
                                     NUMBER(Ring, identities),
                                     {NULL}};
static PyMethodDef identities_methods[] = {{"cost_of", (PyCFunction)Identities_cost_of, METH_VARARGS, NULL},
                                           {"add", (PyCFunction)Identities_add, METH_VARARGS, NULL},
                                           {"young", (PyCFunction)Identities_young, METH_O, NULL},
                                           {"turn", (PyCFunction)Identities_turn, METH_O, NULL},
                                           {NULL}};
static PyMethodDef spender_methods[] = {
    {"check_now", (PyCFunction)(void (*)(void))Spender_check_now, METH_FASTCALL, NULL},
    {"spend", (PyCFunction)(void (*)(void))Spender_spend, METH_FASTCALL, NULL},
    {"spend_entries", (PyCFunction)Spender_spend_entries, METH_VARARGS, NULL},
    {NULL}};

#define FIELDS(name, what)                                                                                             \
    static PyTypeObject what##Type = {                                                                                 \
        PyVarObject_HEAD_INIT(NULL, 0).tp_name = "limiter.spending._spending." name, .tp_basicsize = sizeof(what),              \
        .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, .tp_new = PyType_GenericNew,        \
        .tp_traverse = (traverseproc)what##_traverse, .tp_clear = (inquiry)what##_clear, .tp_dealloc = forget,         \
        .tp_free = PyObject_GC_Del}
FIELDS("BucketFields", Bucket);
FIELDS("KeyFields", Key);
FIELDS("RingFields", Ring);
FIELDS("Spender", Spender);
static PyTypeObject IdentitiesType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "limiter.spending._spending.SpentIdentities", .tp_basicsize = sizeof(Identities),
    .tp_flags = Py_TPFLAGS_DEFAULT, .tp_new = Identities_new, .tp_dealloc = (destructor)Identities_dealloc,
    .tp_methods = identities_methods};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "limiter.spending._spending", NULL, -1, NULL};

PyMODINIT_FUNC
PyInit__spending(void)
{
    BucketType.tp_members = bucket_members;
    KeyType.tp_members = key_members;
    KeyType.tp_getset = key_name;
    RingType.tp_members = ring_members;
    SpenderType.tp_methods = spender_methods;
    SpenderType.tp_init = (initproc)Spender_init;
    PyObject *made = PyModule_Create(&module);
    if (made == NULL || PyModule_AddType(made, &BucketType) < 0 || PyModule_AddType(made, &KeyType) < 0 ||
        PyModule_AddType(made, &RingType) < 0 || PyModule_AddType(made, &IdentitiesType) < 0 ||
        PyModule_AddType(made, &SpenderType) < 0) {
        Py_XDECREF(made);
        return NULL;
    }
    return made;
}
