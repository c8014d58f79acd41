/* The same as limiter/stream/columns.py, which says what it means, compiled: what is done to many records at once,
 * without an object of the interpreter for each. Chosen when it could be built; see columns.py. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#if !defined(__linux__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "limiter/stream/columns.py is used here: columns are little-endian"
#endif

#define ALLOWED 1                 /* limiter.spending.ring */
#define NUMBER_MAX ((1u << 26) - 1) /* of a row or a slot: so much is remembered of each */
#define RECORD_BYTES 24           /* limiter.spending.ring.RECORD */
#define ALSO 16                   /* limiter.spending.ring */
#define IDENTIFIED 64             /* limiter.spending.ring */
#define SLOT_SHIFT 8              /* limiter.spending.ring */
#define KINDS 32                  /* of decisions: their lowest flags, as far as ALSO */
#define PARTS_MAX 64
#define PART_COLUMNS 2
#define AHEAD 8                   /* objects that are fetched before they are read */

/* -- numbering -- */

typedef struct {
    PyObject_HEAD
    uint32_t *places; /* by row or slot, where it stands among those of its part, and one more; 0: it was not met */
    size_t size;
} Numbering;

static int
make_room(Numbering *self, uint32_t number)
{
    if (number < self->size)
        return 0;
    if (number > NUMBER_MAX) {
        PyErr_SetString(PyExc_ValueError, "the number is too large");
        return -1;
    }
    size_t size = self->size ? self->size : 1024;
    while (size <= number)
        size *= 2;
    uint32_t *places = PyMem_Realloc(self->places, size * sizeof(*places));
    if (places == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memset(places + self->size, 0, (size - self->size) * sizeof(*places));
    self->places = places;
    self->size = size;
    return 0;
}

static void
Numbering_dealloc(Numbering *self)
{
    PyMem_Free(self->places);
    Py_TYPE(self)->tp_free(self);
}

/* -- records of a ring -- */

typedef struct {
    uint32_t row, cost, flags;
    int32_t remaining;
    uint64_t at;
} Record; /* limiter.spending.ring.RECORD */

static Record
record_of(const Py_buffer *records, Py_ssize_t at)
{
    Record record;
    memcpy(&record, (const char *)records->buf + at * RECORD_BYTES, RECORD_BYTES);
    return record;
}

static Py_ssize_t
count_of(const Py_buffer *records)
{
    if (records->len % RECORD_BYTES == 0)
        return records->len / RECORD_BYTES;
    PyErr_SetString(PyExc_ValueError, "these are no records");
    return -1;
}

static PyObject *
tally(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer records;
    uint64_t found[2][KINDS] = {{0}};
    if (!PyArg_ParseTuple(args, "y*", &records))
        return NULL;
    Py_ssize_t count = count_of(&records);
    for (Py_ssize_t at = 0; at < count; at++) {
        Record record = record_of(&records, at);
        found[0][record.flags % KINDS]++;
        found[1][record.flags % KINDS] += record.cost;
    }
    PyBuffer_Release(&records);
    return count < 0 ? NULL : PyBytes_FromStringAndSize((char *)found, sizeof(found));
}

/* -- parts: records that go to different places -- */

typedef struct {
    PyObject *columns[PART_COLUMNS]; /* bytes, owned */
    uint32_t *different;             /* rows or slots, in the order in which they come */
    Py_ssize_t count, met, at;
} Part;

static void
free_parts(Part *parts, int count)
{
    for (int n = 0; n < count; n++) {
        for (int column = 0; column < PART_COLUMNS; column++)
            Py_XDECREF(parts[n].columns[column]);
        PyMem_Free(parts[n].different);
    }
}

/* Room for what was counted; ``sizes``: of one row of each column. */
static int
make_parts(Part *parts, int count, const Py_ssize_t sizes[PART_COLUMNS])
{
    for (int n = 0; n < count; n++) {
        Part *part = &parts[n];
        part->different = PyMem_Malloc((size_t)(part->count + 1) * sizeof(uint32_t));
        if (part->different == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        for (int column = 0; column < PART_COLUMNS && sizes[column]; column++) {
            part->columns[column] = PyBytes_FromStringAndSize(NULL, part->count * sizes[column]);
            if (part->columns[column] == NULL)
                return -1;
        }
    }
    return 0;
}

static char *
place_in(Part *part, int column, Py_ssize_t size)
{
    return PyBytes_AS_STRING(part->columns[column]) + part->at * size;
}

/* Where a number stands among those of its part; there is room for it in the numbering. */
static uint32_t
place_of(Numbering *self, Part *part, uint32_t number)
{
    if (!self->places[number]) {
        part->different[part->met++] = number;
        self->places[number] = (uint32_t)part->met;
    }
    return self->places[number] - 1;
}

static void
forget(Numbering *self, Part *parts, int count)
{
    for (int n = 0; n < count; n++)
        for (Py_ssize_t at = 0; at < parts[n].met; at++)
            self->places[parts[n].different[at]] = 0;
}

/* A list of tuples: the columns of each part, and the bytes of its different numbers. */
static PyObject *
given(Part *parts, int count, int columns)
{
    PyObject *found = PyList_New(count);
    for (int n = 0; found != NULL && n < count; n++) {
        PyObject *part = PyTuple_New(columns + 1);
        PyObject *different = PyBytes_FromStringAndSize((char *)parts[n].different, parts[n].met * 4);
        if (part == NULL || different == NULL) {
            Py_XDECREF(part);
            Py_XDECREF(different);
            Py_CLEAR(found);
            break;
        }
        for (int column = 0; column < columns; column++)
            PyTuple_SET_ITEM(part, column, Py_NewRef(parts[n].columns[column]));
        PyTuple_SET_ITEM(part, columns, different);
        PyList_SET_ITEM(found, n, part);
    }
    return found;
}

/* 0, or -1 with an exception: which part each record belongs to, by its row. */
static int
count_rows(Numbering *self, const Py_buffer *records, Py_ssize_t count, const Py_buffer *homes, Part *parts, int n)
{
    for (Py_ssize_t at = 0; at < count; at++) {
        Record record = record_of(records, at);
        if (record.flags & ALSO)
            continue;
        uint8_t home = record.row < homes->len ? ((uint8_t *)homes->buf)[record.row] : UINT8_MAX;
        if (home >= n) {
            PyErr_SetString(PyExc_ValueError, "a record has no row");
            return -1;
        }
        if (make_room(self, record.row) < 0)
            return -1;
        parts[home].count++;
    }
    return 0;
}

static void
split_rows(Numbering *self, const Py_buffer *records, Py_ssize_t count, const uint8_t *homes, Part *parts,
           uint32_t mask)
{
    for (Py_ssize_t at = 0; at < count; at++) {
        Record record = record_of(records, at);
        if (record.flags & ALSO)
            continue;
        Part *part = &parts[homes[record.row]];
        uint32_t place = (uint32_t)at;
        record.row = place_of(self, part, record.row);
        record.flags &= mask;
        memcpy(place_in(part, 0, 4), &place, 4);
        memcpy(place_in(part, 1, RECORD_BYTES), &record, RECORD_BYTES);
        part->at++;
    }
}

static PyObject *
Numbering_split(Numbering *self, PyObject *args)
{
    Py_buffer records, homes;
    int n;
    unsigned int mask;
    if (!PyArg_ParseTuple(args, "y*y*iI", &records, &homes, &n, &mask))
        return NULL;
    Part parts[PARTS_MAX] = {0};
    PyObject *found = NULL;
    Py_ssize_t count = count_of(&records);
    if (n < 1 || n > PARTS_MAX)
        PyErr_SetString(PyExc_ValueError, "so many parts are too many");
    else if (count >= 0 && count_rows(self, &records, count, &homes, parts, n) == 0 &&
             make_parts(parts, n, (Py_ssize_t[PART_COLUMNS]){4, RECORD_BYTES}) == 0) {
        split_rows(self, &records, count, homes.buf, parts, mask);
        forget(self, parts, n);
        found = given(parts, n, 2);
    }
    free_parts(parts, PARTS_MAX);
    PyBuffer_Release(&records);
    PyBuffer_Release(&homes);
    return found;
}

/* -- what leases are charged for -- */

typedef struct {
    Py_buffer records, identities, keys, homes; /* a hash of each record; by row; by slot */
    Py_ssize_t count, lost;
} Charged;

/* 0, or -1 with an exception. What is of no lease any more is counted as lost. */
static int
count_charges(Numbering *self, Charged *asked, Part *parts, int n)
{
    for (Py_ssize_t at = 0; at < asked->count; at++) {
        Record record = record_of(&asked->records, at);
        if (!(record.flags & IDENTIFIED))
            continue;
        uint32_t slot = record.flags >> SLOT_SHIFT;
        int8_t home = slot < asked->homes.len ? ((int8_t *)asked->homes.buf)[slot] : INT8_MAX;
        if (home >= n || record.row >= asked->keys.len / 8) {
            PyErr_SetString(PyExc_ValueError, "a charge has no lease, or no key");
            return -1;
        }
        if (make_room(self, slot) < 0)
            return -1;
        if (home < 0)
            asked->lost++;
        else
            parts[home].count++;
    }
    return 0;
}

static void
split_charges(Numbering *self, const Charged *asked, Part *parts)
{
    for (Py_ssize_t at = 0; at < asked->count; at++) {
        Record record = record_of(&asked->records, at);
        uint32_t slot = record.flags >> SLOT_SHIFT;
        if (!(record.flags & IDENTIFIED) || ((int8_t *)asked->homes.buf)[slot] < 0)
            continue;
        Part *part = &parts[((int8_t *)asked->homes.buf)[slot]];
        uint64_t charge[4] = {0, record.at, 0, place_of(self, part, slot) | (uint64_t)record.cost << 32};
        memcpy(&charge[0], (char *)asked->identities.buf + 8 * at, 8);
        if (!(record.flags & ALSO))
            memcpy(&charge[2], (char *)asked->keys.buf + 8 * (size_t)record.row, 8);
        memcpy(place_in(part, 0, sizeof(charge)), charge, sizeof(charge));
        part->at++;
    }
}

static PyObject *
Numbering_charged(Numbering *self, PyObject *args)
{
    Charged asked = {0};
    int n;
    if (!PyArg_ParseTuple(args, "y*y*y*y*i", &asked.records, &asked.identities, &asked.keys, &asked.homes, &n))
        return NULL;
    Part parts[PARTS_MAX] = {0};
    PyObject *found = NULL, *both = NULL;
    asked.count = count_of(&asked.records);
    if (n < 1 || n > PARTS_MAX || asked.identities.len / 8 < asked.count)
        PyErr_SetString(PyExc_ValueError, "there is one identity for each record, and few parts");
    else if (asked.count >= 0 && count_charges(self, &asked, parts, n) == 0 &&
             make_parts(parts, n, (Py_ssize_t[PART_COLUMNS]){4 * 8}) == 0) {
        split_charges(self, &asked, parts);
        forget(self, parts, n);
        found = given(parts, n, 1);
    }
    if (found != NULL)
        both = Py_BuildValue("(Nn)", found, asked.lost);
    free_parts(parts, PARTS_MAX);
    PyBuffer_Release(&asked.records);
    PyBuffer_Release(&asked.identities);
    PyBuffer_Release(&asked.keys);
    PyBuffer_Release(&asked.homes);
    return both;
}

/* -- counters of leases -- */

/* 0, or -1 with an exception; ``due`` gets slots that are to be reported. */
static int
count_record(Record record, int64_t *counters, const int64_t *due_at, char *stale, Py_ssize_t slots, PyObject *due)
{
    uint32_t slot = record.flags >> SLOT_SHIFT;
    if (slot >= slots) {
        PyErr_SetString(PyExc_ValueError, "there is no such slot");
        return -1;
    }
    if (!slot)
        return 0;
    int is_allowed = record.flags & ALLOWED;
    counters[slot] += is_allowed ? record.cost : 0;
    counters[(is_allowed ? 1 : 2) * slots + slot]++;
    stale[slot] = stale[slots + slot] = 1;
    if (counters[slot] < due_at[slot])
        return 0;
    PyObject *number = PyLong_FromUnsignedLong(slot);
    int done = number == NULL ? -1 : PySet_Add(due, number);
    Py_XDECREF(number);
    return done;
}

static PyObject *
count_leases(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer records, counters, due_at, stale;
    if (!PyArg_ParseTuple(args, "y*w*y*w*", &records, &counters, &due_at, &stale))
        return NULL;
    PyObject *due = NULL;
    Py_ssize_t slots = due_at.len / 8, count = count_of(&records);
    if (counters.len != 3 * slots * 8 || stale.len != 2 * slots)
        PyErr_SetString(PyExc_ValueError, "the columns of slots do not agree");
    else if (count >= 0)
        due = PySet_New(NULL);
    for (Py_ssize_t at = 0; due != NULL && at < count; at++)
        if (count_record(record_of(&records, at), counters.buf, due_at.buf, stale.buf, slots, due) < 0)
            Py_CLEAR(due);
    PyBuffer_Release(&records);
    PyBuffer_Release(&counters);
    PyBuffer_Release(&due_at);
    PyBuffer_Release(&stale);
    return due;
}

static PyObject *
write_stale(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer counters, stale, to;
    if (!PyArg_ParseTuple(args, "y*w*w*", &counters, &stale, &to))
        return NULL;
    Py_ssize_t slots = stale.len;
    int is_right = counters.len == 3 * slots * 8 && to.len == counters.len;
    for (Py_ssize_t slot = 0; is_right && slot < slots; slot++) {
        char *mark = (char *)stale.buf + slot;
        uint64_t eight;
        if (slot + 8 <= slots && (memcpy(&eight, mark, 8), !eight)) {
            slot += 7;
            continue;
        }
        for (int column = 0; *mark && column < 3; column++)
            ((int64_t *)to.buf)[column * slots + slot] = ((const int64_t *)counters.buf)[column * slots + slot];
        *mark = 0;
    }
    PyBuffer_Release(&counters);
    PyBuffer_Release(&stale);
    PyBuffer_Release(&to);
    if (is_right)
        return Py_NewRef(Py_None);
    PyErr_SetString(PyExc_ValueError, "the columns of slots do not agree");
    return NULL;
}

/* -- texts -- */

/* A text of a list, borrowed; NULL with an exception. */
static PyObject *
text_of(PyObject *texts, const char *numbers, Py_ssize_t at)
{
    uint32_t number;
    memcpy(&number, numbers + 4 * at, 4);
    PyObject *text = PyList_GetItem(texts, number); /* raises IndexError */
    if (text != NULL && !PyBytes_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "texts are bytes");
        return NULL;
    }
    return text;
}

static void
fetch(PyObject *texts, const char *numbers, Py_ssize_t at, Py_ssize_t count)
{
    uint32_t number;
    if (at >= count)
        return;
    memcpy(&number, numbers + 4 * at, 4);
    if (number < PyList_GET_SIZE(texts)) {
        const char *text = (const char *)PyList_GET_ITEM(texts, number);
        __builtin_prefetch(text);
        __builtin_prefetch(text + 64);
    }
}

/* Nothing of Python runs between the two rounds, so the texts are the same in both. */
static PyObject *
joined_texts(PyObject *texts, const char *numbers, Py_ssize_t count)
{
    Py_ssize_t size = 0;
    for (Py_ssize_t at = 0; at < count; at++) {
        fetch(texts, numbers, at + AHEAD, count);
        PyObject *text = text_of(texts, numbers, at);
        if (text == NULL)
            return NULL;
        if (PyBytes_GET_SIZE(text) > PY_SSIZE_T_MAX - size)
            return PyErr_NoMemory();
        size += PyBytes_GET_SIZE(text);
    }
    PyObject *found = PyBytes_FromStringAndSize(NULL, size);
    char *to = found == NULL ? NULL : PyBytes_AS_STRING(found);
    for (Py_ssize_t at = 0; to != NULL && at < count; at++) {
        PyObject *text = text_of(texts, numbers, at);
        memcpy(to, PyBytes_AS_STRING(text), (size_t)PyBytes_GET_SIZE(text));
        to += PyBytes_GET_SIZE(text);
    }
    return found;
}

static PyObject *
joined(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *texts;
    Py_buffer numbers;
    if (!PyArg_ParseTuple(args, "O!y*", &PyList_Type, &texts, &numbers))
        return NULL;
    PyObject *found = joined_texts(texts, numbers.buf, numbers.len / 4);
    PyBuffer_Release(&numbers);
    return found;
}

/* -- module -- */

static PyMethodDef numbering_methods[] = {{"split", (PyCFunction)Numbering_split, METH_VARARGS, NULL},
                                           {"charged", (PyCFunction)Numbering_charged, METH_VARARGS, NULL},
                                           {NULL}};
static PyTypeObject NumberingType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "limiter.stream._columns.Numbering", .tp_basicsize = sizeof(Numbering),
    .tp_flags = Py_TPFLAGS_DEFAULT, .tp_new = PyType_GenericNew, .tp_dealloc = (destructor)Numbering_dealloc,
    .tp_methods = numbering_methods};
static PyMethodDef functions[] = {{"tally", tally, METH_VARARGS, NULL},
                                  {"count_leases", count_leases, METH_VARARGS, NULL},
                                  {"write_stale", write_stale, METH_VARARGS, NULL},
                                  {"joined", joined, METH_VARARGS, NULL},
                                  {NULL}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "limiter.stream._columns", NULL, -1, functions};

PyMODINIT_FUNC
PyInit__columns(void)
{
    PyObject *made = PyModule_Create(&module);
    if (made == NULL || PyModule_AddType(made, &NumberingType) < 0) {
        Py_XDECREF(made);
        return NULL;
    }
    return made;
}
