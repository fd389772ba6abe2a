/*===- kimi.h - the C API of the runtime ------------------------------------===*\
|*
|* Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
|*
|* Load a compiled module (.kmod), make a session, run its entries. Every call
|* that can fail returns a kimi_status; kimi_last_error() then gives one line
|* for a person (thread-local). No call aborts on bad input. Handles are not
|* thread-safe; different sessions may be used from different threads.
|*
\*===------------------------------------------------------------------------===*/
#ifndef KIMI_KIMI_H
#define KIMI_KIMI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kimi_status {
  KIMI_OK = 0,
  KIMI_INVALID_ARGUMENT = 1, /* the caller's mistake: unknown entry, wrong shape or dtype */
  KIMI_BAD_FILE = 2,         /* a damaged, foreign or hostile file */
  KIMI_NOT_FOUND = 3,        /* a file or a port that is not there */
  KIMI_OUT_OF_MEMORY = 4,
  KIMI_UNSUPPORTED = 5, /* this machine lacks what the module was compiled for */
  KIMI_RUNTIME_ERROR = 6
} kimi_status;

/* A module takes and gives numbers of 8-bit floating point and float4e2m1 as KIMI_U8, their bits (the low ones), and
   integers of 4 and 2 bits as KIMI_I8 or KIMI_U8, one in each byte. */
typedef enum kimi_dtype {
  KIMI_F32,
  KIMI_F16,
  KIMI_BF16,
  KIMI_F64,
  KIMI_I64,
  KIMI_I32,
  KIMI_I16,
  KIMI_I8,
  KIMI_U64,
  KIMI_U32,
  KIMI_U16,
  KIMI_U8,
  KIMI_BOOL
} kimi_dtype;

#define KIMI_MAX_RANK 16

typedef enum kimi_role {
  KIMI_ROLE_NONE,
  KIMI_ROLE_TOKEN_IDS,
  KIMI_ROLE_ATTENTION_MASK,
  KIMI_ROLE_POSITION_IDS,
  KIMI_ROLE_LOGITS,
  KIMI_ROLE_NEXT_TOKEN /* an output of integers, [batch] or [batch, 1]: the greedy choice after the last token */
} kimi_role;

/* A dense row-major tensor in host memory; the caller owns `data`. */
typedef struct kimi_tensor {
  kimi_dtype dtype;
  int32_t rank;
  int64_t dims[KIMI_MAX_RANK];
  void *data;
} kimi_tensor;

/* A port of an entry. A dim that varies is -1; `symbols` then holds its name or NULL. */
typedef struct kimi_port {
  const char *name;
  kimi_dtype dtype;
  kimi_role role;
  int32_t rank;
  int64_t dims[KIMI_MAX_RANK];
  const char *symbols[KIMI_MAX_RANK];
} kimi_port;

typedef struct kimi_state_info {
  const char *name, *input, *output; /* input/output: ports of the original graph, or "" */
  kimi_dtype dtype;
  int32_t rank, grows;         /* grows: the axis with one row per token, or -1 */
  int64_t dims[KIMI_MAX_RANK]; /* -1 for the batch and for the growing axis */
} kimi_state_info;

typedef struct kimi_module kimi_module;
typedef struct kimi_session kimi_session;
typedef struct kimi_snapshot kimi_snapshot;

typedef struct kimi_module_options {
  const char *weights_dir; /* folder of external weights; NULL: the folder of the .kmod */
} kimi_module_options;

typedef struct kimi_session_options {
  int32_t threads; /* 0: one per core this process may use */
  int64_t max_seq; /* capacity of growing states; 0: 1024, or less where the module's context is shorter */
  int64_t batch;   /* sequences per step that states are made for; 0: 1 */
  /* "cpu", "cuda" or "cuda:1"; NULL or "": the device the module is compiled for (the first GPU) */
  const char *device;
  int32_t no_graphs;      /* CUDA: launch each kernel by itself, never a captured graph */
  int32_t check_launches; /* CUDA: wait after each kernel (and use no graphs), so that an error names it */
} kimi_session_options;

/* A device of this machine. */
typedef struct kimi_device_info {
  char id[16]; /* "cpu", "cuda:0": what kimi_session_options.device takes */
  char name[128];
  char arch[16];   /* "x86-64", "sm_90": compute capability of a GPU */
  char driver[32]; /* "CUDA 12.4" or "" */
  uint64_t memory_bytes;
  double memory_bandwidth; /* bytes a second by the clock and width of the memory bus; 0: unknown */
  int32_t cores;           /* threads of a CPU, multiprocessors of a GPU */
} kimi_device_info;

const char *kimi_version(void);
const char *kimi_last_error(void);
size_t kimi_dtype_size(kimi_dtype dtype);
const char *kimi_dtype_name(kimi_dtype dtype);

/* The devices of this machine, the CPU first: fills in up to `capacity` of them and sets `count` to how many there are.
   Where no GPU is among them, kimi_last_error() says why. */
kimi_status kimi_devices(kimi_device_info *out, int32_t capacity, int32_t *count);

/* Maps and checks the file; weights are mapped, not read. */
kimi_status kimi_module_load(const char *path, const kimi_module_options *options, kimi_module **out);
void kimi_module_free(kimi_module *module);
int32_t kimi_module_entry_count(const kimi_module *module);
const char *kimi_module_entry_name(const kimi_module *module, int32_t entry);
/* Index of the entry of that name, or -1. */
int32_t kimi_module_find_entry(const kimi_module *module, const char *name);
int32_t kimi_module_input_count(const kimi_module *module, int32_t entry);
int32_t kimi_module_output_count(const kimi_module *module, int32_t entry);
kimi_status kimi_module_input(const kimi_module *module, int32_t entry, int32_t index, kimi_port *out);
kimi_status kimi_module_output(const kimi_module *module, int32_t entry, int32_t index, kimi_port *out);
int32_t kimi_module_state_count(const kimi_module *module);
kimi_status kimi_module_state(const kimi_module *module, int32_t index, kimi_state_info *out);
/* Longest sequence the weights allow, or -1. */
int64_t kimi_module_max_context(const kimi_module *module);
/* A readable listing of plan, kernels, buffers and states; the caller frees it with kimi_free. */
kimi_status kimi_module_describe(const kimi_module *module, char **out);
void kimi_free(void *pointer);

/* Makes threads, maps weights, runs the `init` entry (packed layouts). Shares the module, which must outlive it. */
kimi_status kimi_session_create(const kimi_module *module, const kimi_session_options *options, kimi_session **out);
void kimi_session_free(kimi_session *session);
/* Shapes the outputs would have for these inputs (dims and dtype are filled in; data is not touched). */
kimi_status kimi_session_output_shapes(kimi_session *session, int32_t entry, const kimi_tensor *inputs,
                                       int32_t input_count, kimi_tensor *outputs, int32_t output_count);
/* Runs an entry. Inputs in the order of the signature; outputs hold caller-owned memory of the right size, or NULL for
   one that nobody wants: it is computed and dropped. States are read and updated in place; after success the sequence
   length grows by the T of the step. */
kimi_status kimi_session_run(kimi_session *session, int32_t entry, const kimi_tensor *inputs, int32_t input_count,
                             kimi_tensor *outputs, int32_t output_count);

/* Called with the tokens of a step of decoding, one for each sequence; any result but 0 stops. */
typedef int32_t (*kimi_token_function)(void *user, const int64_t *tokens, int64_t batch);
/* Greedy decoding without the host in between: runs `entry` up to `steps` times. `tokens` (one for each of `batch`
   sequences) feed the first step, the next-token output of each step feeds the one after it; positions and masks are
   made here. `on_tokens` gets what each step gave, in order, while later steps run: on a GPU a stop comes after one
   more step was begun, whose tokens are forgotten (in states of a fixed size their trace stays). The entry needs an
   input of token ids of one column, an output of role KIMI_ROLE_NEXT_TOKEN of the same dtype, and no inputs but
   positions and masks besides; otherwise KIMI_UNSUPPORTED. */
kimi_status kimi_session_decode(kimi_session *session, int32_t entry, const int64_t *tokens, int64_t batch,
                                int64_t steps, kimi_token_function on_tokens, void *user);
/* 1 where the entry has what kimi_session_decode needs, else 0 and kimi_last_error() says what it lacks. */
int32_t kimi_module_can_decode(const kimi_module *module, int32_t entry);

/* Runs an entry `runs` times from the present length, which does not change, drops the outputs, and gives the seconds
   each run took on the device (of a GPU: between events, runs following each other without a pause). */
kimi_status kimi_session_time(kimi_session *session, int32_t entry, const kimi_tensor *inputs, int32_t input_count,
                              int64_t runs, double *seconds);
/* One launch of a profiled run. Texts belong to the module. */
typedef struct kimi_launch_time {
  const char *name, *kernel;
  int32_t index;                 /* of the launch in the entry */
  double start, length;          /* seconds */
  double bytes, flops;           /* bytes: of all arguments, once each; flops: -1 where the module does not say */
  int64_t grid[3];               /* points */
  int32_t threads, shared_bytes; /* of a block; 0 on a CPU */
} kimi_launch_time;
/* Runs an entry once, each launch timed by itself; the length does not change. Fills in up to `capacity` launches and
   sets `count` to how many ran. */
kimi_status kimi_session_profile(kimi_session *session, int32_t entry, const kimi_tensor *inputs, int32_t input_count,
                                 kimi_launch_time *times, int32_t capacity, int32_t *count);

/* The device it runs on: "cpu", "cuda:0". */
const char *kimi_session_device(const kimi_session *session);
/* Tokens held by the states. */
int64_t kimi_session_length(const kimi_session *session);
/* Capacity of the growing states. */
int64_t kimi_session_capacity(const kimi_session *session);
/* What a session holds of its sequences are the states of its module: growing ones (a cache: a row a token) and ones of
   a fixed size (the memory of a delta rule, the window of a convolution: whatever all tokens left in it). They begin as
   zeros; a prompt may come whole, in parts of any length or token by token. After a run that failed on the device, and
   after kimi_session_time and kimi_session_profile, states of a fixed size hold something else than before: restore a
   snapshot or reset the session. */

/* Forget everything: length 0, fixed states zero. */
kimi_status kimi_session_reset(kimi_session *session);

typedef enum kimi_snapshot_kind {
  KIMI_SNAPSHOT_ALL = 0,  /* every state: fixed ones, and of growing ones the rows of the tokens held */
  KIMI_SNAPSHOT_FIXED = 1 /* states of a fixed size only: as much memory after any number of tokens */
} kimi_snapshot_kind;

/* Copies the states of all sequences of the session, and their length, to a handle of its own in host memory, after
   whatever was run before. It stays as it is whatever the session does, outlives session and module, and may be used
   any number of times; kimi_snapshot_free gives it back. `kind`: one of kimi_snapshot_kind.
   Errors: KIMI_OUT_OF_MEMORY where the host has no room for it; KIMI_INVALID_ARGUMENT; what a device reports. */
kimi_status kimi_session_snapshot(kimi_session *session, int32_t kind, kimi_snapshot **out);
/* Brings back what the session, or another one of the same module, held when the snapshot of kind ALL was taken.
   Errors: KIMI_INVALID_ARGUMENT, and nothing has changed, where the snapshot is of kind FIXED, of another module
   (loading a file twice makes two), of a session for another number of sequences, or holds more tokens than the session
   has room for. An error of the device leaves the session without tokens, and its states unknown: reset it. */
kimi_status kimi_session_restore(kimi_session *session, const kimi_snapshot *snapshot);
/* Drops the tokens after the first `length` of each sequence.
   Where every state grows this needs no snapshot (NULL). A state of a fixed size cannot forget a token: then
   `snapshot`, of either kind, must have been taken at exactly `length` tokens, and the session must still begin with
   the tokens it held then: it may have gone on, been cut to `length` or more, or been restored to a snapshot taken
   later on that way. The fixed states come from the snapshot, the growing ones stay where they are. Errors:
   KIMI_INVALID_ARGUMENT, and nothing has changed, where `length` is negative or more than is held, where a state of a
   fixed size (the message names it) is without such a snapshot, or where the snapshot does not fit, as above. */
kimi_status kimi_session_truncate(kimi_session *session, int64_t length, const kimi_snapshot *snapshot);

/* Tokens of each sequence, and bytes, that a snapshot holds; 0 of NULL. */
int64_t kimi_snapshot_length(const kimi_snapshot *snapshot);
uint64_t kimi_snapshot_bytes(const kimi_snapshot *snapshot);
void kimi_snapshot_free(kimi_snapshot *snapshot);

/* Bytes of state of one sequence (fixed) and of one token of it (growing), of weights, of packed weights, and of the
   arena: the working memory of a run. */
typedef struct kimi_memory {
  uint64_t state_fixed_bytes, state_bytes_per_token, weight_bytes, derived_bytes, arena_bytes;
} kimi_memory;
/* Of a session; of the arena what its runs so far have needed. */
kimi_status kimi_session_memory(const kimi_session *session, kimi_memory *out);
/* Of a module, without a session and without its weights: from the module's own tables. arena_bytes is 0. */
kimi_status kimi_module_memory(const kimi_module *module, kimi_memory *out);
/* The arena that a run of `entry` needs with inputs of these shapes, after `length` tokens, in a session of these
   options (NULL: the defaults). Runs nothing. The inputs may lack data where no size depends on their values. Errors:
   KIMI_INVALID_ARGUMENT as kimi_session_run gives it. */
kimi_status kimi_module_arena(const kimi_module *module, int32_t entry, const kimi_session_options *options,
                              int64_t length, const kimi_tensor *inputs, int32_t input_count, uint64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif /* KIMI_KIMI_H */
