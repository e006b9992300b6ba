/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device side of a communicator: what its calling thread and its watcher share once calls are
 * on device memory. A communicator is of one kind for its life: of the host (comm->device is NULL,
 * streams are refused) or of a device (any device pointer of that device, any stream).
 *
 *   creation    device_open()    context, kernels, memory, stream, own facts; what is only local
 *               device_share()   facts and regions of all ranks, mapped at one stride
 *               device_selftest_*()  in two halves, by barriers of the meeting
 *               device_start()   everything that calls and a rescue need, allocated and warm
 *   calls       path/symm_path.c, path/nccl_path.c, path/parked_path.c: enqueue and return
 *   watcher     device_watch()   kernel posts -> mailbox -> orders (device_calls.c); records
 *                                (device_records.c); the clock (device_clock.c)
 *   end         device_close()
 *
 * Built without CUDA all of this exists and device_open() says so; see gpu_none.c.
 */
#ifndef BELAY_RUNTIME_CUDA_DEVICE_H
#define BELAY_RUNTIME_CUDA_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/symm_kernels.h"
#include "runtime/communicator.h"
#include "runtime/cuda/gpu.h"
#include "runtime/cuda/launch_shape.h"
#include "runtime/cuda/nccl_watch.h"

struct device_calls;
struct device_clock;
struct device_records;
struct nccl_worker;

/* The first fault of the device that is for good; see device_fault(). */
struct device_lost {
	_Atomic uint32_t state; /* 0: none; 1: being written; 2: `text` stands */
	bool sticky;		/* the context is lost with it */
	char text[CONTROL_TEXT_BYTES];
};

/* Before each gathered input: what it is, see device_gather.c. */
#define DEVICE_PART_HEAD 64u

/* A watched call between its begin and its end, see runtime/watched_call.c. */
struct device_watched {
	bool open;
	bool left_out;	       /* fault injection: this rank has not made it */
	enum fault_kind fault; /* of NCCL's, injected in its middle */
	const void *stream;    /* as struct enqueue has it */
	uint64_t capture;
};

/* The last launch in a capture. */
struct device_captured {
	uint64_t id;	    /* of the capture; 0: none */
	const void *stream; /* by identity */
	const void *tail;   /* what it left there, by gpu_capture_tail() */
	uint64_t when;	    /* counts such launches */
};

/* As many captures may be open at once for calls of one communicator in them to follow one another.
 */
enum { DEVICE_CAPTURES = 8 };

struct device {
	/* Constant once device_start() has returned. */
	int ordinal;
	struct gpu_facts facts;
	struct symm_comm symm; /* what every launch is given */
	bool shared; /* regions are mapped; else `symm.region` is private memory of this rank */
	bool ready;  /* memory is there and initialised */
	enum launch_topology topology;
	uint32_t sharing;	    /* ranks on this rank's device, itself included */
	uint64_t turn_bytes;	    /* largest turn */
	struct launch_table table;  /* algorithm and grid by size */
	struct CUstream_st *stream; /* the watcher's; creation's before that */
	struct gpu_region *region[SYMM_RANKS_MAX];
	uint64_t mapped; /* bit r: rank r's region is mapped at its place in `space` */
	void *space;
	size_t space_bytes, region_bytes;
	void *private_;	  /* the own stride where regions are not shared */
	void *fault_list; /* symm.faults */
	void *registered; /* control segment, registered with CUDA */
	/* For rescue: device memory for all ranks' parts, pinned host memory for one part and for
	 * small answers. */
	char *parts; /* nranks * parts_stride bytes; each part has DEVICE_PART_HEAD before its data
		      */
	size_t parts_stride; /* a multiple of 16, at least turn_bytes + DEVICE_PART_HEAD */
	char *bounce;
	size_t bounce_bytes;
	struct device_answers *answers; /* pinned: see device_answers */
	struct nccl_worker
		*nccl; /* NULL: NCCL cannot be used; the reason stands in comm->reasons */

	/* Calling thread. */
	/* Of eager launches so far; see device_enqueue.h. Relaxed: the watcher reads it too, which
	 * takes a launch that it does not see yet for one that comes a moment later. */
	_Atomic uint64_t tickets;
	const void *eager_stream; /* of the last eager launch, by identity */
	/* The last launches that were captured, one of each capture, the oldest over-written. */
	struct device_captured captured[DEVICE_CAPTURES];
	uint64_t captures; /* launches that were */
	uint64_t pass_ticket; /* of the last eager end mark; 0: none */
	struct device_watched watched;
	/* NCCL's result of the first watched call that did not get onto its stream; 0: none.
	 * Relaxed: the watcher looks again. */
	_Atomic int watched_failed;
	/* The last error that the program's communicator has told of; 0: none. Any thread; relaxed,
	 * likewise. */
	_Atomic int watched_error;

	struct device_lost lost; /* any thread */

	/* Watcher. */
	struct nccl_watch nccl_watch;
	struct device_calls *calls;
	struct device_records *records;
	struct device_clock *clock;
};

/* Small results of kernels and copies, in pinned host memory. */
struct device_answers {
	int32_t selftest;
	uint32_t probe_seen;
	uint64_t digest;
	struct symm_mode mode;
	uint64_t scratch[8];
	_Alignas(16) struct symm_moved moved[SYMM_LINK_BLOCKS];
};

/* Which device a communicator is for, by BELAY_DEVICE: "host", a number, or "auto": the device of
 * the calling thread's current context, host where there is none. -1: host. Returns 0,
 * BELAY_E_SETTING or BELAY_E_UNSUPPORTED with causes. "auto" neither loads nor initialises the
 * driver. */
int device_wanted(const struct settings *settings, int *ret_ordinal, struct cause_chain *causes);

/* Whether BELAY_DEVICE says one of these at all: 0, or BELAY_E_SETTING with the cause. Asks nobody
 * whether the device is there. */
int device_check_setting(const struct settings *settings, struct cause_chain *causes);

/* Local part. Returns 0, or a status with causes. Needs the mapped control segment; the facts are
 * told there, and the next barrier of the meeting shows them to all. */
int device_open(struct belay_comm *comm, int ordinal, struct device **ret_device);

/* Exchanges regions with the peers over comm->members.link, by deadline_ns, and initialises the own
 * one (first lines, slots). 0, or -1 with the reason why the symm path cannot be used here (then
 * symm.region becomes private memory); peers are told, so that nobody waits. `refuse` (may be
 * NULL): a reason not to share, for fault injection. A communicator that only watches shares
 * nothing, has private memory too, and that is no failure. Between two barriers of the meeting:
 * after the first all facts are there, before the second nobody writes to another's region. */
int device_share(struct belay_comm *comm, uint64_t deadline_ns, const char *refuse, char *ret_why,
		 size_t size);

/* Halves of the self-test; 0, or -1 with the reason. Call both only where device_share() succeeded
 * here; peers' failures do no harm. */
int device_selftest_write(struct belay_comm *comm, uint64_t nonce, bool spoil, char *ret_why,
			  size_t size);
int device_selftest_verify(struct belay_comm *comm, uint64_t nonce, char *ret_why, size_t size);

/* Between the self-test and the agreement on paths, behind a barrier each: how fast this rank
 * reaches all peers, while all try. Bounded; what fails says nothing. Whether it is to be made all
 * ranks know alike. The agreement shows the results to all, and device_start() acts on them. */
bool device_asks_link_probe(const struct belay_comm *comm);
void device_probe_links(struct belay_comm *comm, bool pull, bool slow);

/* "pushes N MB/s, pulls M MB/s ...", of the slowest ranks; "" where no probe was made. */
void device_describe_links(const struct belay_comm *comm, char *text, size_t size);

/* After the paths are agreed and before the last barrier. 0, or a status with causes. */
int device_start(struct belay_comm *comm);

/* True when the eager launch with that ticket, and so all before it, has ended well: the ticket is
 * posted, and its turn is done by all blocks. After a turn that failed it stays false: launches are
 * refused by then, or wait for the verdict. Any thread. */
bool device_ended(const struct belay_comm *comm, uint64_t ticket);

/* Eager launches so far. Any thread. */
static inline uint64_t device_tickets(const struct device *device)
{
	return atomic_load_explicit(&device->tickets, memory_order_relaxed);
}

/* True when no launch of this rank is in flight: no eager one, and no turn that has begun. Any
 * thread. */
bool device_idle(const struct belay_comm *comm);

/* Frees everything, in any state, in bounded time, after the watcher has ended. The application
 * enqueues no kernel of the communicator any more; those still stuck are ordered to leave. False:
 * some may still be running (or the context is lost); then all that they use is left as it is, and
 * the control segment must stay mapped. */
bool device_close(struct belay_comm *comm);

/* Counts a call by its record, for statistics and health. The thread that drains records;
 * count_call() of a host's calling thread. */
struct call_record;
void device_count_record(struct belay_comm *comm, const struct call_record *record);

/* ---- watcher --------------------------------------------------------------------------------- */

/* One look: takes the kernel's posts over into the mailbox, gives orders, drains records, beats the
 * clock. `in_rescue`: this rank takes part in one. `stuck`: its kernel waits for long:
 * nothing is launched or copied then that can be put off, since a program that frees device memory
 * meanwhile has the driver hold up the watcher, too. Returns when it wants to be
 * called again at the latest, ns. */
uint64_t device_watch(struct belay_comm *comm, uint64_t now_ns, bool in_rescue, bool stuck);

/* True while launches and copies may wait for the kernels in the process to end, and so must not be
 * made for a kernel that waits: see nccl_worker_note_rescue(). */
bool device_is_held(const struct belay_comm *comm);

/* A verdict is decided from `turn` on: kernels in it or above leave without a result. */
void device_fail_from(struct belay_comm *comm, uint64_t turn);

/* Reads a rank's retained input of a turn into host memory: own, or a dead peer's whose blocks all
 * say that it is whole (P3). 0; -1: cannot be had. Watcher; waits for the copy, bounded. */
int device_read_retained(struct belay_comm *comm, unsigned rank, uint64_t turn, size_t offset,
			 size_t bytes, void *to);
/* Writes part of an abandoned turn's output from host memory. Watcher; waits, bounded. 0 or -1. */
int device_write_output(struct belay_comm *comm, void *output, size_t offset, const void *from,
			size_t bytes);

/* Rank's `done` turn by its kernels' posts: block words folded, and the word posted after rescues.
 * Any thread. */
uint64_t device_done(const struct belay_comm *comm, unsigned rank);

/* The last turn that this rank has staged, as far as its kernels have told. */
uint64_t device_staged(const struct belay_comm *comm);

/* Bit i: fault i is for this rank's kernels, and they have come to its first call. */
uint32_t device_faults_reached(const struct belay_comm *comm);

/* A CUDA call failed for good: complains (verdict gpu_fault naming this rank). Any thread. The
 * first one's text, "WHAT: CALL: its code in words (code)", is kept for the verdict:
 * device_fault_text(). */
void device_fault(struct belay_comm *comm, const struct gpu_error *error, const char *what);

/* Text of the first device_fault(); NULL: there was none. Any thread. */
const char *device_fault_text(const struct belay_comm *comm);

#endif /* BELAY_RUNTIME_CUDA_DEVICE_H */
