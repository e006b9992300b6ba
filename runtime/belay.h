/* SPDX-License-Identifier: Apache-2.0 */
/*
 * belay: allreduce with bounded waits, one verdict and a trace.
 *
 * The life of a communicator
 *
 *   belay_unique_id_create()           one process makes an id and hands it to all ranks
 *   belay_comm_create()                every rank joins; or belay_comm_create_from_env(), or
 *                                      belay_comm_create_from_nccl()
 *     belay_pass_begin()               optional: marks that group calls into passes
 *       belay_allreduce() ...          the calls, in the same order on every rank
 *       belay_watch_begin(), _end()    around calls of NCCL's that the program makes itself
 *     belay_pass_end()                 the commit: success here is success on every rank
 *   belay_comm_destroy()
 *
 * A call that cannot be finished ends in a verdict: one failed call, one cause and one rank at
 * fault, the same on every surviving rank. From then on every call returns the verdict's status;
 * what is left is to ask (belay_comm_verdict(), belay_comm_causes()), to agree on a new id with
 * the other survivors (belay_comm_survivors()) and to destroy the communicator.
 *
 * A communicator is of one kind for its life: of host memory, or of the memory of one CUDA device
 * (setting BELAY_DEVICE). On a device, calls and pass marks are enqueued on a stream, one by one or
 * into a graph that is captured, and belay_pass_wait() tells how they ended.
 *
 * Which calls may run at once (one communicator; different communicators are independent)
 *
 * (allreduce stands for watch_* too)
 *
 *                        allreduce  pass_*  buffer_*  queries  abort  survivors  destroy
 *   allreduce            BUSY       BUSY    BUSY      yes      yes    BUSY       no
 *   pass_*               BUSY       BUSY    BUSY      yes      yes    BUSY       no
 *   buffer_*             BUSY       BUSY    BUSY      yes      yes    BUSY       no
 *   queries              yes        yes     yes       yes      yes    yes        no
 *   abort                yes        yes     yes       yes      yes    yes        no
 *   survivors            BUSY       BUSY    BUSY      yes      yes    BUSY       no
 *   destroy              no         no      no        no       no     no         no
 *
 *   yes   safe from different threads at the same time
 *   BUSY  the later of the two returns BELAY_E_BUSY at once and changes nothing
 *   no    the program must not do it; after belay_comm_destroy() the handle is gone
 *
 * On a device a communicator is also used by one stream at a time, see belay_allreduce(): while
 * another stream has work of it to do, allreduce, watch_* and pass_* return BELAY_E_BUSY.
 *
 * Queries are belay_comm_rank, _nranks, _id, _place, _verdict, _health, _rank_health, _statistics
 * and _causes. No function may be called from a signal handler. A child made by fork() must not use
 * a communicator of its parent: every call there returns BELAY_E_FORKED and touches nothing.
 *
 * Every function that can fail returns an int: 0, or a negative status of enum belay_status.
 * Parameters named ret_* are written only when the documentation of the function says so,
 * otherwise only on success.
 */
#ifndef BELAY_H
#define BELAY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BELAY_VERSION_MAJOR 0
#define BELAY_VERSION_MINOR 1
#define BELAY_VERSION_PATCH 0
/** The version as one number, for comparison: major * 10000 + minor * 100 + patch. */
#define BELAY_VERSION                                                                              \
	(BELAY_VERSION_MAJOR * 10000 + BELAY_VERSION_MINOR * 100 + BELAY_VERSION_PATCH)

#define BELAY_API	 __attribute__((visibility("default")))
#define BELAY_MUST_CHECK __attribute__((warn_unused_result))

/** Most ranks of a communicator. */
#define BELAY_RANKS_MAX 64

/** A CUDA stream, named without CUDA's header. NULL: for host memory the only choice; on a device
 * the legacy default stream. */
struct CUstream_st;

/** What ncclComm_t of NCCL points to, named without its header. */
struct ncclComm;

/** One rank's membership in a communicator. Opaque; made by belay_comm_create*(). */
struct belay_comm;

/**
 * Every status that a function of this header can return. Never renumbered. The text, the class
 * and what to do about each: docs/statuses.md, belay_status_text(), belay_status_class().
 */
enum belay_status {
	BELAY_OK = 0,
	/* Class CALLER: the caller's mistake. Nothing was started, nothing has changed. */
	BELAY_E_ARGUMENT = -100,
	BELAY_E_BUSY = -101,
	BELAY_E_SETTING = -102,
	BELAY_E_UNSUPPORTED = -103,
	BELAY_E_FORKED = -104,
	BELAY_E_STATE = -105,
	/* Class LOCAL: this process or machine lacks something. */
	BELAY_E_NO_MEMORY = -200,
	BELAY_E_SYSTEM = -201,
	BELAY_E_LIMIT = -202,
	/* Class GROUP: the ranks did not come together. */
	BELAY_E_START_TIMEOUT = -300,
	BELAY_E_REFUSED = -301,
	BELAY_E_NO_PATH = -302,
	BELAY_E_TIMEOUT = -303,
	/* Class VERDICT: the communicator's one verdict; final, the same on every survivor. */
	BELAY_E_PEER_LOST = -400,
	BELAY_E_PEER_STUCK = -401,
	BELAY_E_MISMATCH = -402,
	BELAY_E_GPU_FAULT = -403,
	BELAY_E_NCCL_FAILED = -404,
	BELAY_E_ABORTED = -405,
	BELAY_E_INTERNAL = -406
};

/** What kind of failure a status is; a program can switch on it. Never renumbered. */
enum belay_status_class {
	BELAY_CLASS_DONE = 0,	/**< success */
	BELAY_CLASS_CALLER = 1, /**< correct the call and repeat it */
	BELAY_CLASS_LOCAL = 2,	/**< give the process more of what it lacks */
	BELAY_CLASS_GROUP = 3,	/**< the group did not form or agree in time */
	BELAY_CLASS_VERDICT = 4 /**< the communicator is over; build a new one */
};

/** Element types. The numbers stand in call logs: never renumbered. Those from 9 on are of watched
 * calls alone: belay_allreduce() refuses them. */
enum belay_dtype {
	BELAY_F32 = 1,
	BELAY_F64 = 2,
	BELAY_F16 = 3,
	BELAY_BF16 = 4,
	BELAY_I32 = 5,
	BELAY_I64 = 6,
	BELAY_U8 = 7,
	BELAY_I8 = 8,
	BELAY_U32 = 9,
	BELAY_U64 = 10,
	BELAY_F8E4M3 = 11,
	BELAY_F8E5M2 = 12
};

/** What a call does. The numbers stand in call logs: never renumbered. Up to BELAY_USER_OP: an
 * allreduce with this reduction. Those from 5 on are of watched calls alone, see
 * belay_watch_begin(): belay_allreduce() refuses them. */
enum belay_op {
	BELAY_SUM = 1,
	BELAY_MAX = 2,
	BELAY_MIN = 3,
	BELAY_PROD = 4,
	BELAY_AVG = 5,
	BELAY_USER_OP = 6, /**< made by the program, as by ncclRedOpCreatePreMulSum() */
	BELAY_ALL_GATHER = 16,
	BELAY_REDUCE_SCATTER = 17,
	BELAY_BROADCAST = 18,
	BELAY_REDUCE = 19,
	BELAY_ALL_TO_ALL = 20,
	BELAY_GATHER = 21,
	BELAY_SCATTER = 22
};

/** How a call was carried out. The numbers stand in call logs: never renumbered. */
enum belay_path {
	BELAY_PATH_SYMM = 1,
	BELAY_PATH_NCCL = 2,
	BELAY_PATH_HOST = 3,
	BELAY_PATH_RING = 4
};

/** How a path did it. The numbers stand in call logs: never renumbered. */
enum belay_algorithm {
	BELAY_ALGORITHM_ONESHOT = 1, /**< every rank reads every input */
	BELAY_ALGORITHM_TWOSHOT = 2, /**< each reduces a slice; results are pushed or fetched */
	BELAY_ALGORITHM_TWOSHOT_PULL = 3, /**< two-shot whose first half is pulled (CUDA) */
	BELAY_ALGORITHM_ISLAND = 4,	  /**< two levels (CUDA) */
	BELAY_ALGORITHM_GATHER = 5	  /**< all inputs gathered over sockets (ring) */
};

/** Why a communicator got its verdict. The numbers stand in call logs: never renumbered. */
enum belay_cause {
	BELAY_CAUSE_NONE = 0,
	BELAY_CAUSE_PEER_LOST = 1,
	BELAY_CAUSE_PEER_STUCK = 2,
	BELAY_CAUSE_MISMATCH = 3,
	BELAY_CAUSE_GPU_FAULT = 4,
	BELAY_CAUSE_NCCL_FAILED = 5,
	BELAY_CAUSE_ABORTED = 6,
	BELAY_CAUSE_INTERNAL = 7
};

/** Which ranks of an NCCL communicator belay_comm_create_from_nccl() takes. Never renumbered. */
enum belay_hosts {
	BELAY_HOSTS_ONE = 0, /**< all, which must be on one host */
	BELAY_HOSTS_OWN = 1  /**< all, or, where they are on several hosts, those of this one */
};

/** Severity of a message; the order of BELAY_LOG. */
enum belay_log_level {
	BELAY_LOG_OFF = 0,
	BELAY_LOG_ERROR = 1,
	BELAY_LOG_WARN = 2,
	BELAY_LOG_INFO = 3
};

/**
 * Names a communicator to be. All bytes are random or checked; compare and copy it as a whole,
 * send it to the other ranks by any means. Whoever knows it and runs as the same user can join.
 */
struct belay_unique_id {
	unsigned char bytes[128];
};

/**
 * Receives belay's messages. Called from belay's own threads and, during creation and destruction,
 * from the caller's; never from inside belay_allreduce(). Must not call belay.
 *
 * @param message  one line without newline, the library's; valid during the call
 */
typedef void (*belay_log_function)(void *user, enum belay_log_level level, const char *message);

/**
 * Told that a communicator has its verdict. Called once at most, from a thread of belay's, when
 * kernels and calls that wait have been told to leave; the CUDA context of the communicator, if it
 * has one, is that thread's current one then. Must return soon. Of belay's functions it may call
 * belay_comm_verdict() and belay_comm_causes(), once belay_comm_create() has given it the
 * communicator to call them with.
 */
typedef void (*belay_verdict_function)(void *user);

/**
 * What a communicator can be told at creation. Fill with BELAY_CONFIG_INIT, then set fields.
 * A field left at its initial value means: not given. Precedence: the environment over this
 * struct over the default; belay-info prints the effective values. Settings that must agree are
 * compared between the ranks at creation. Text fields stay the caller's and are copied.
 */
struct belay_config {
	size_t size;		/**< sizeof(struct belay_config); set by BELAY_CONFIG_INIT */
	belay_log_function log; /**< NULL: to stderr */
	void *log_user;
	/* One field for each setting of docs/settings.md, spelled as in the environment; NULL:
	 * not given. */
	const char *late_ms;
	const char *grace_ms;
	const char *give_up_ms;
	const char *warmup_give_up_ms;
	const char *start_ms;
	const char *destroy_ms;
	const char *heartbeat_ms;
	const char *paths;
	const char *symm_max;
	const char *breaker;
	const char *probe_ms;
	const char *job;
	const char *log_level;
	const char *log_dir;
	const char *log_keep;
	const char *tune;
	const char *fault;
	const char *buffer_max;
	uint64_t first_seq; /**< number of the first call; 0 means 1. For tests of the wrap; must
			       agree */
	const char *device;
	const char *nccl_library;
	const char *host_id;
	uint32_t hosts; /**< enum belay_hosts; must agree. Of belay_comm_create_from_nccl() only */
	const char *watch;
	belay_verdict_function verdict; /**< NULL: nobody is told */
	void *verdict_user;
};

/** The initial value of a struct belay_config. */
#define BELAY_CONFIG_INIT                                                                          \
	{                                                                                          \
		.size = sizeof(struct belay_config)                                                \
	}

/** The one verdict of a communicator. */
struct belay_verdict {
	size_t size;   /**< sizeof(struct belay_verdict), set by the caller */
	uint64_t seq;  /**< the first failed call */
	uint64_t pass; /**< its pass, from 1; 0 when it stood outside any pass */
	enum belay_cause cause;
	int status;	/**< the status that calls return for it */
	int rank;	/**< the rank at fault; -1 when none can be named */
	int proposer;	/**< the rank that found it */
	char text[512]; /**< one line for a person: what failed, where, the foreign call and code */
};

/** State of the breaker that guards a path. Never renumbered. */
enum belay_breaker_state {
	BELAY_BREAKER_CLOSED = 0,
	BELAY_BREAKER_OPEN = 1,
	BELAY_BREAKER_HALF_OPEN = 2
};

/** Where a communicator stands, as seen from this process. */
struct belay_health {
	size_t size;	   /**< sizeof(struct belay_health), set by the caller */
	uint64_t seq;	   /**< last call that this rank began */
	uint64_t done_seq; /**< last call that this rank finished */
	uint64_t pass;	   /**< last pass that this rank began */
	uint64_t age_ns;   /**< time since this rank's last progress, nanoseconds; before the
			      first since creation */
	int in_call;	   /**< 1 while a call of this rank is running, or on a device enqueued */
	enum belay_path path; /**< path of the next call */
	enum belay_breaker_state breaker;
	uint64_t missing; /**< while in a call past the soft deadline: mask of ranks waited for */
	int has_verdict;
	enum belay_path last_path; /**< of the last call that this rank finished; 0: none yet */
	enum belay_algorithm last_algorithm; /**< likewise */
};

/** One rank's state, as it stands in the shared control segment. */
struct belay_rank_health {
	size_t size;		   /**< sizeof(struct belay_rank_health), set by the caller */
	uint64_t seq;		   /**< last call that the rank began */
	uint64_t done_seq;	   /**< last call that it finished */
	uint64_t age_ns;	   /**< time since its last progress, nanoseconds; before the
				      first since creation */
	uint64_t heartbeat_age_ns; /**< time since its watcher's last heartbeat, nanoseconds */
	int pid;		   /**< process id in that process's own namespace */
	int dead;		   /**< 1: the process is gone */
	int left;		   /**< 1: it has destroyed its communicator */
	int in_call;
	int world_rank; /**< its rank in the NCCL communicator that this one is a part of; else its
			   rank here */
};

/** Where a communicator stands in a larger one, see BELAY_HOSTS_OWN. */
struct belay_place {
	size_t size; /**< sizeof(struct belay_place), set by the caller */
	int hosts;   /**< of the NCCL communicator; 1: all ranks are in this communicator */
	int host;    /**< this one's number, 1 .. hosts, in the order of their lowest ranks */
	int nranks;  /**< of the NCCL communicator */
	int rank;    /**< this process's rank there */
};

/** Counters since creation, of this rank unless said otherwise. */
struct belay_statistics {
	size_t size;		   /**< sizeof(struct belay_statistics), set by the caller */
	uint64_t calls;		   /**< calls finished with success */
	uint64_t passes;	   /**< passes committed */
	uint64_t bytes;		   /**< bytes of the inputs of those calls; of watched ones as
				      belay_watched.count says */
	uint64_t calls_by_path[8]; /**< indexed by enum belay_path */
	uint64_t late_calls;	   /**< calls in which this rank waited past the soft deadline */
	uint64_t rescued_seqs;	   /**< seqs rescued in the communicator, each counted once */
	uint64_t own_rescues;	   /**< calls of this rank that ended by rescue */
	uint64_t late_by_rank[BELAY_RANKS_MAX];	 /**< calls in which that rank was named late */
	uint64_t late_worst_ns[BELAY_RANKS_MAX]; /**< longest wait for that rank, nanoseconds */
	uint64_t records_lost; /**< call records that did not reach the call log */
	/** Bit i: this rank has carried out fault i, from 0, of BELAY_FAULT; of those inside
	 * kernels: its first call has begun. */
	uint64_t faults_done;
};

/** What belay_pass_end() and belay_pass_wait() report. */
struct belay_pass_info {
	size_t size;	    /**< sizeof(struct belay_pass_info), set by the caller */
	uint64_t pass;	    /**< the pass, from 1 */
	uint64_t first_seq; /**< its first call; 0 when it had none */
	uint64_t last_seq;  /**< its last call; 0 when it had none */
	uint64_t wait_ns;   /**< time spent waiting for the commit, nanoseconds */
};

/** The library's version text, such as "0.1.0"; static. May differ from the header's
 * BELAY_VERSION. */
BELAY_API const char *belay_version(void);

/** The library's version as a number, comparable with BELAY_VERSION. */
BELAY_API int belay_version_number(void);

/** The name of a status, such as "BELAY_E_PEER_LOST"; static; "unknown status" for other
 * numbers. */
BELAY_API const char *belay_status_name(int status);

/** One sentence for a person; static. */
BELAY_API const char *belay_status_text(int status);

/** The class of a status; BELAY_CLASS_LOCAL for numbers that are no status. */
BELAY_API enum belay_status_class belay_status_class(int status);

/** Names as printed and logged, such as "bf16"; static; "unknown" for other numbers. */
BELAY_API const char *belay_dtype_name(enum belay_dtype dtype);
BELAY_API const char *belay_op_name(enum belay_op op);
BELAY_API const char *belay_path_name(enum belay_path path);
BELAY_API const char *belay_algorithm_name(enum belay_algorithm algorithm);
BELAY_API const char *belay_cause_name(enum belay_cause cause);

/** Bytes of one element; 0 for other numbers. */
BELAY_API size_t belay_dtype_bytes(enum belay_dtype dtype);

/**
 * Makes the id of a new communicator. One process calls it and gives the id to all ranks.
 *
 * @param ret_id  the id
 * @return 0; BELAY_E_ARGUMENT (NULL); BELAY_E_SYSTEM (no random numbers from the kernel)
 * Any thread. Does not block.
 */
BELAY_API BELAY_MUST_CHECK int belay_unique_id_create(struct belay_unique_id *ret_id);

/**
 * Joins a communicator. Every rank calls it, with the same id and nranks and a rank of its own;
 * returns when all have joined and every rank has checked its memory with every other.
 *
 * With BELAY_DEVICE=auto, the default, calls are on the memory of the device whose CUDA context is
 * current in the calling thread, on host memory where there is none. The ranks must agree on the
 * kind of memory; each is on its own device, or several share one.
 *
 * @param ret_comm  the communicator; end it with belay_comm_destroy()
 * @param id        from belay_unique_id_create(), the same on every rank; used for one creation
 *                  only
 * @param rank      0 .. nranks - 1
 * @param nranks    1 .. BELAY_RANKS_MAX, all on this host
 * @param config    NULL, or settings; not kept
 *
 * @return 0, or (what was missing is said through the log callback)
 *   BELAY_E_ARGUMENT       a parameter is out of range, or the id is not one
 *   BELAY_E_SETTING        a setting has a bad value; it is named
 *   BELAY_E_UNSUPPORTED    BELAY_DEVICE asks for a device where there is no CUDA, or there are more
 *                          ranks than a communicator on devices can have (16)
 *   BELAY_E_NO_MEMORY, BELAY_E_SYSTEM, BELAY_E_LIMIT   here or on another rank, which is named
 *   BELAY_E_START_TIMEOUT  not all ranks joined within BELAY_START_MS; the missing are named
 *   BELAY_E_REFUSED        another version, world size or setting, or a rank taken twice; both
 *                          values are named
 *   BELAY_E_NO_PATH        no allowed path works on all ranks; each reason is given
 *
 * Blocks up to BELAY_START_MS (milliseconds). Any thread; ranks may be threads of one process.
 */
BELAY_API BELAY_MUST_CHECK int belay_comm_create(struct belay_comm **ret_comm,
						 const struct belay_unique_id *id, int rank,
						 int nranks, const struct belay_config *config);

/**
 * Joins a communicator described by the environment as torchrun sets it: RANK, WORLD_SIZE and,
 * for the name of the meeting point, BELAY_JOB, TORCHELASTIC_RUN_ID or MASTER_ADDR with
 * MASTER_PORT. A world of several hosts (LOCAL_WORLD_SIZE or GROUP_WORLD_SIZE say so) is refused.
 * May be called again for a second communicator of the same ranks, in the same order on each.
 *
 * @return as belay_comm_create(), and
 *   BELAY_E_SETTING      a variable is missing or malformed; it is named
 *   BELAY_E_UNSUPPORTED  also: the world spans several hosts
 * Blocks up to BELAY_START_MS. Reads the environment, changes nothing in it.
 */
BELAY_API BELAY_MUST_CHECK int belay_comm_create_from_env(struct belay_comm **ret_comm,
							  const struct belay_config *config);

/**
 * Joins a communicator of the ranks of an NCCL communicator, numbered as there, for the device that
 * it is on (unless BELAY_DEVICE or the config says another). Every rank of it calls this. Ranks
 * tell each other over it where they are and by which id they meet, in one ncclAllGather; it is not
 * used afterwards, and stays the caller's.
 *
 * Ranks on several hosts (or of several users or network namespaces of one) are refused, unless the
 * config of each has hosts = BELAY_HOSTS_OWN. Then the ranks of each host make a communicator of
 * their own, numbered from 0 in the order of their ranks there, either on all hosts or on none:
 * they tell each other in a second ncclAllGather. It reduces nothing, but watches what the program
 * does on its NCCL communicator: see belay_watch_begin(). Its verdict, causes, survivors and
 * records are those of this host's ranks; texts name ranks by their numbers in the NCCL
 * communicator too. belay_comm_place() tells which it is. BELAY_HOST_ID says what a host is, in
 * place of the id of its boot.
 *
 * @param nccl    an ncclComm_t, of the NCCL that this process has loaded; no other call on it may
 *                run meanwhile
 * @param config  NULL, or settings; not kept
 *
 * @return as belay_comm_create(), and
 *   BELAY_E_UNSUPPORTED    its ranks are not all on this host, of one user and in one network
 *                          namespace, or on one host more than a communicator can have; or belay
 * was built without NCCL, or the process has none that can be used BELAY_E_REFUSED        another
 * rank could not go on, or has another version of belay; it is named BELAY_E_START_TIMEOUT  NCCL
 * did not answer within BELAY_START_MS: the ranks did not all call, or nccl is broken. What was
 * begun on it is left there: abort it BELAY_E_SYSTEM         NCCL or CUDA reported an error Blocks
 * up to twice BELAY_START_MS, of which NCCL gets the first half, on a thread of belay's; up to four
 * times where there are several hosts. Any thread.
 */
BELAY_API BELAY_MUST_CHECK int belay_comm_create_from_nccl(struct belay_comm **ret_comm,
							   struct ncclComm *nccl,
							   const struct belay_config *config);

/**
 * Leaves and frees a communicator. Waits until no peer can need this rank for a call that it has
 * finished (rule C3), then releases everything, whatever has happened before. On a device, first
 * synchronise the streams that calls were enqueued on, and launch no graph with calls any more:
 * memory that kernels may still use is not freed, but stays until the process ends.
 *
 * @param comm  NULL is allowed and does nothing
 * @return 0, or BELAY_E_TIMEOUT: a peer did not finish in time; everything is released all the
 * same.
 *   BELAY_E_FORKED: called in a forked child, which owns nothing.
 * Blocks up to BELAY_DESTROY_MS. No other call on comm may run or follow.
 */
BELAY_API int belay_comm_destroy(struct belay_comm *comm);

/**
 * Ends the communicator for all ranks: the first call that is not finished everywhere gets the
 * verdict "aborted" with this rank as the one at fault. Calls that are waiting return.
 *
 * @return 0, also when a verdict stands already; BELAY_E_ARGUMENT; BELAY_E_FORKED
 * Any thread, at any time before destroy. Does not wait for peers.
 */
BELAY_API BELAY_MUST_CHECK int belay_comm_abort(struct belay_comm *comm);

/**
 * After a verdict: which ranks are left, and an agreed id for a communicator of just them. The
 * lowest survivor makes the id. Rank k of the new communicator is the k-th survivor.
 *
 * @param timeout_ns  longest wait for the other survivors, nanoseconds
 * @param ret_mask    bit r: rank r survives and has answered; the same on every survivor
 * @param ret_id      the new id, the same on every survivor
 *
 * @return 0; BELAY_E_ARGUMENT; BELAY_E_BUSY; BELAY_E_FORKED; BELAY_E_STATE (there is no verdict);
 *   BELAY_E_TIMEOUT (a live rank has not asked in time; ask again, or leave)
 * Blocks up to timeout_ns.
 */
BELAY_API BELAY_MUST_CHECK int belay_comm_survivors(struct belay_comm *comm, uint64_t timeout_ns,
						    uint64_t *ret_mask,
						    struct belay_unique_id *ret_id);

/**
 * Reduces count elements over all ranks; every rank gets the same bits. Inputs are combined in
 * rank order in float32 (float64 for f64; integers wrap), rounded once. The result does not depend
 * on path, size or alignment, nor on the caller's floating-point mode.
 *
 * @param send    count elements; any alignment of the element type or less. On a device: memory of
 *                that device, from cudaMalloc(), a pool or mapped, whole or a part of it
 * @param recv    count elements, likewise; equal to send (in place) or not overlapping it
 * @param count   elements, the same on every rank; 0 is a call too (send and recv may be NULL)
 * @param stream  host memory: NULL. On a device: any stream of it, NULL being the legacy default
 *                one; also one that is being captured, in any mode
 *
 * @return 0: for host memory recv holds the result. On a device the call is enqueued, and recv
 *   holds the result once the stream has got there, unless the call fails: see below. Both are
 *   provisional until the pass is committed, see belay_pass_end(): another rank may still fail in
 *   this call.
 *   BELAY_E_ARGUMENT     a pointer, count, dtype or op is out of range, or the buffers overlap in
 *                        part; on a device: a buffer is managed memory, host memory or another
 *                        device's: belay_comm_causes() tells. Nothing was started or changed
 *   BELAY_E_BUSY         another thread is in a call of this communicator, or another stream has
 *                        work of it to do; nothing was started
 *   BELAY_E_UNSUPPORTED  a stream was given for host memory, or the communicator only watches
 *                        (BELAY_HOSTS_OWN); nothing was started
 *   BELAY_E_STATE        the stream's capture is broken, or it is the legacy default stream while
 *                        another stream is captured, or a watched call is open; nothing was started
 *   BELAY_E_SYSTEM       CUDA refused the launch: belay_comm_causes() tells; nothing was started
 *   BELAY_E_FORKED       this is a forked child; nothing was started
 *   class VERDICT        the communicator's verdict, of this call or an earlier one. For a mismatch
 *                        recv is untouched; else its content is undefined
 *
 * Host memory: blocks until all ranks have made the call, at most BELAY_GIVE_UP_MS
 * (BELAY_WARMUP_GIVE_UP_MS in the first pass) and a short agreement; a call above BELAY_SYMM_MAX or
 * 512 KB goes in turns, each with that deadline. Allocates nothing, opens nothing, prints nothing.
 *
 * On a device: does not block, and the host waits for nothing. The stream waits for the other
 * ranks, as long as said above. A call that fails there leaves recv undefined and lets the stream
 * go on, and the calls after it do nothing; the program learns of it from belay_pass_wait(), from
 * the status of a later call, from belay_comm_verdict() or belay_comm_health(). Ask before results
 * are used for good.
 *
 * One stream at a time: until the calls and marks that were enqueued on one stream have ended,
 * every other stream gets BELAY_E_BUSY, even if it waits for the first by an event. Calls that are
 * captured on several streams of one capture follow one another in the graph, in the order in which
 * they were captured. Captured calls are numbered when they are replayed. Two graphs with calls of
 * one communicator, or a graph and calls made one by one, must not run at the same time: belay does
 * not see a graph being launched.
 */
BELAY_API BELAY_MUST_CHECK int belay_allreduce(const void *send, void *recv, size_t count,
					       enum belay_dtype dtype, enum belay_op op,
					       struct belay_comm *comm, struct CUstream_st *stream);

/** A call of NCCL's that the program makes itself, see belay_watch_begin(). */
struct belay_watched {
	size_t size;	  /**< sizeof(struct belay_watched), set by the caller */
	enum belay_op op; /**< any */
	enum belay_dtype dtype;
	uint64_t count; /**< elements of the larger buffer: of an allgather, reduce-scatter,
			   alltoall, gather or scatter those of all ranks together */
	int root;	/**< of a broadcast, reduce, gather or scatter; else 0 */
	unsigned calls; /**< calls of NCCL's that go as one; 0 is 1. More: count and dtype are those
			   of all together, op is that of the first */
	uint64_t details; /**< whatever else is equal on all ranks, such as a hash of the reduction;
			     compared, not recorded */
};

/**
 * Watches a call that the program makes on a communicator of NCCL's of its own, of the same ranks:
 * an allgather, say. The program calls belay_watch_begin(), enqueues NCCL's call on the same
 * stream, and calls belay_watch_end(); eager, or all three in one capture. The call gets a number
 * and a record (path nccl) like an allreduce and is a part of its pass; a rank that is late is
 * named; a rank that makes another call is a mismatch, where NCCL alone would hang; a rank that
 * dies, and a call that does not end by the hard deadline, are a verdict. belay moves none of its
 * data and cannot finish it: there is no rescue.
 *
 * begin enqueues a kernel that holds the stream until all ranks have come this far with the same
 * call, end one that notes when the call has ended. Between the two no other call and no mark of
 * the communicator may be made: BELAY_E_STATE.
 *
 * After a verdict NCCL's kernel may wait for ever: belay ends its own kernels, not the program's
 * communicator of NCCL's. The program asks for verdicts (belay_comm_verdict(), belay_comm_health())
 * and aborts that one.
 *
 * @param watched  the same on every rank and in both calls; not kept
 * @param failed   0; or the result of NCCL's call (ncclResult_t) when it has not come onto the
 *                 stream, here or perhaps elsewhere: that is a verdict, nccl_failed
 * @param stream   as in belay_allreduce(); the same in both calls
 *
 * @return 0, or as belay_allreduce() on a device, and
 *   BELAY_E_ARGUMENT     also: end is for another stream or capture than begin
 *   BELAY_E_UNSUPPORTED  the communicator is of host memory
 *   BELAY_E_STATE        also: begin inside a watched call; end outside of one
 *   When begin has returned anything but 0, NCCL's call must not be made, and end neither. When end
 *   has, the watched call is over all the same, unless that was BELAY_E_ARGUMENT, BELAY_E_BUSY or
 *   BELAY_E_FORKED.
 * Does not block.
 */
BELAY_API BELAY_MUST_CHECK int belay_watch_begin(struct belay_comm *comm,
						 const struct belay_watched *watched,
						 struct CUstream_st *stream);
BELAY_API BELAY_MUST_CHECK int belay_watch_end(struct belay_comm *comm,
					       const struct belay_watched *watched, int failed,
					       struct CUstream_st *stream);

/**
 * NCCL has told the program of an error of that communicator by ncclCommGetAsyncError(): a watched
 * call that is on the stream then, or comes later, will not end, and gets its verdict, nccl_failed,
 * now and not at the hard deadline. Between hosts this is how the end of a rank on another one is
 * learned. Where no watched call follows nothing comes of it.
 *
 * @param result  ncclResult_t
 * @return 0; BELAY_E_ARGUMENT (0 and ncclInProgress are no errors); BELAY_E_UNSUPPORTED (of host
 *   memory); BELAY_E_FORKED
 * Any thread, at any time before destroy, also during a call. Does not block.
 */
BELAY_API BELAY_MUST_CHECK int belay_watch_error(struct belay_comm *comm, int result);

/**
 * Allocates a buffer in the region that peers have mapped. Calls on such buffers skip a copy when
 * every rank's buffers are region buffers; the result is the same.
 *
 * @param bytes       1 .. BELAY_BUFFER_MAX in all
 * @param ret_buffer  aligned to 4096 bytes, zeroed; free with belay_buffer_free() before destroy
 * @return 0; BELAY_E_ARGUMENT; BELAY_E_BUSY; BELAY_E_FORKED; BELAY_E_NO_MEMORY (the region or the
 *   memory is exhausted); BELAY_E_UNSUPPORTED (the host path is not in use; on a device any device
 *   memory will do)
 * Not collective: ranks may allocate differently. Does not wait for peers.
 */
BELAY_API BELAY_MUST_CHECK int belay_buffer_alloc(struct belay_comm *comm, size_t bytes,
						  void **ret_buffer);

/**
 * Returns a region buffer. NULL is allowed and does nothing.
 *
 * @return 0; BELAY_E_ARGUMENT (not a buffer of this communicator); BELAY_E_BUSY; BELAY_E_FORKED
 * Does not wait for peers: no peer writes to it once the calls that used it have returned 0. After
 * a verdict a rank that was stopped while it pushed its result may push the rest when it wakes up:
 * then do not use the communicator's region buffers any more, but destroy it.
 */
BELAY_API int belay_buffer_free(struct belay_comm *comm, void *buffer);

/**
 * Begins a pass: the calls up to belay_pass_end() belong to it. Every rank marks its passes alike;
 * the pass number and the place in it are part of a call's signature.
 *
 * On a device the mark is enqueued like a call; captured into a graph it begins a new pass at each
 * replay. Both marks of a pass are captured, or neither is.
 *
 * @param stream  host memory: NULL; on a device as in belay_allreduce()
 * @return 0; BELAY_E_ARGUMENT; BELAY_E_BUSY; BELAY_E_FORKED; BELAY_E_STATE (a pass is open; nobody
 *   knows of captured marks); BELAY_E_UNSUPPORTED (a stream for host memory); on a device also
 *   BELAY_E_STATE and BELAY_E_SYSTEM as in belay_allreduce(); class VERDICT
 * Does not block.
 */
BELAY_API BELAY_MUST_CHECK int belay_pass_begin(struct belay_comm *comm,
						struct CUstream_st *stream);

/**
 * Ends a pass and, for host memory, waits for its commit: success only when all ranks are done
 * with its last call and no verdict stands up to it. A committed pass is committed on every rank,
 * and no later verdict undoes it. On a device it only enqueues the mark; belay_pass_wait() commits.
 *
 * @return 0; BELAY_E_ARGUMENT; BELAY_E_BUSY; BELAY_E_FORKED; BELAY_E_STATE (no pass is open);
 *   BELAY_E_UNSUPPORTED (a stream for host memory); on a device as belay_pass_begin(); class
 *   VERDICT: the pass has failed on every rank
 *
 * Host memory: blocks up to BELAY_GIVE_UP_MS for the slowest rank. On a device: does not block.
 */
BELAY_API BELAY_MUST_CHECK int belay_pass_end(struct belay_comm *comm, struct CUstream_st *stream);

/**
 * Waits for the commit of the pass that was ended last and tells about it.
 *
 * On a device: waits first until the stream has reached the last end mark that was not captured,
 * then for the commit of the pass whose end was reached last; it covers those before. A graph's end
 * marks count once a replay has reached them: synchronise with its stream before.
 *
 * @param ret_info  NULL, or size set by the caller; written on success
 * @return as belay_pass_end(); BELAY_E_STATE when no pass has been ended; on a device
 *   BELAY_E_TIMEOUT: the stream did not get to the end mark within BELAY_GIVE_UP_MS; nothing is
 *   decided, ask again
 * Blocks up to BELAY_GIVE_UP_MS, on a device up to twice that.
 */
BELAY_API BELAY_MUST_CHECK int belay_pass_wait(struct belay_comm *comm,
					       struct belay_pass_info *ret_info);

/** This process's rank, as this communicator numbers them; -1 for NULL. */
BELAY_API int belay_comm_rank(const struct belay_comm *comm);

/** The number of ranks; -1 for NULL. */
BELAY_API int belay_comm_nranks(const struct belay_comm *comm);

/** The communicator's name in logs and traces, 32 hexadecimal digits; lives as long as comm. NULL
 * for NULL. */
BELAY_API const char *belay_comm_id(const struct belay_comm *comm);

/**
 * Of which larger communicator this one is a part, if any (BELAY_HOSTS_OWN).
 *
 * @param ret_place  size set by the caller
 * @return 0; BELAY_E_ARGUMENT; BELAY_E_FORKED. Does not block.
 */
BELAY_API BELAY_MUST_CHECK int belay_comm_place(const struct belay_comm *comm,
						struct belay_place *ret_place);

/**
 * The verdict, if there is one.
 *
 * @param ret_verdict  size set by the caller; written only when a verdict stands
 * @return 0: written; BELAY_E_STATE: there is none; BELAY_E_ARGUMENT; BELAY_E_FORKED
 */
BELAY_API BELAY_MUST_CHECK int belay_comm_verdict(const struct belay_comm *comm,
						  struct belay_verdict *ret_verdict);

/** Where this rank stands. @return 0; BELAY_E_ARGUMENT; BELAY_E_FORKED. Does not block. */
BELAY_API BELAY_MUST_CHECK int belay_comm_health(const struct belay_comm *comm,
						 struct belay_health *ret_health);

/** Where another rank stands. @return 0; BELAY_E_ARGUMENT; BELAY_E_FORKED. Does not block. */
BELAY_API BELAY_MUST_CHECK int belay_comm_rank_health(const struct belay_comm *comm, int rank,
						      struct belay_rank_health *ret_health);

/** Counters since creation. @return 0; BELAY_E_ARGUMENT; BELAY_E_FORKED. Does not block. */
BELAY_API BELAY_MUST_CHECK int belay_comm_statistics(const struct belay_comm *comm,
						     struct belay_statistics *ret_statistics);

/**
 * The chain of causes, newest last, a line each: what failed, the foreign call and its code, rank
 * and seq.
 *
 * @param buffer   receives the text and a 0 byte, cut at size; may be NULL when size is 0
 * @param ret_size bytes that the whole text needs, the 0 byte included; may be NULL
 * @return 0; BELAY_E_ARGUMENT; BELAY_E_FORKED
 */
BELAY_API BELAY_MUST_CHECK int belay_comm_causes(const struct belay_comm *comm, char *buffer,
						 size_t size, size_t *ret_size);

/**
 * The causes of the calling thread's last creation that failed: the same text, for when there is no
 * communicator to ask. Lives until the thread's next creation; "" when none failed.
 */
BELAY_API const char *belay_last_error(void);

/** One setting, as a communicator created now with this config would have it. */
struct belay_setting {
	size_t size;		   /**< sizeof(struct belay_setting), set by the caller */
	const char *name;	   /**< as in the environment, such as "BELAY_LATE_MS"; static */
	const char *default_value; /**< static */
	const char *text;	   /**< what it means, for a person; static */
	const char *origin; /**< where the value came from: "default", "config" or "environment";
			       static */
	char value[4096];   /**< the effective value */
};

/** How many settings there are. */
BELAY_API int belay_setting_count(void);

/**
 * Tells one effective setting, after checking all of them as creation does.
 *
 * @param index   0 .. belay_setting_count() - 1
 * @param config  NULL, or what belay_comm_create() would be given; its log hears the warnings, such
 *   as that of an unknown BELAY_ variable
 * @param ret_setting  size set by the caller
 * @return 0; BELAY_E_ARGUMENT; BELAY_E_NO_MEMORY; BELAY_E_SETTING: a setting, this one or another,
 *   has a bad value; belay_last_error() names it, its value and what was expected
 * Any thread. Reads the file of BELAY_TUNE; else it does not block. Prints nothing.
 */
BELAY_API BELAY_MUST_CHECK int belay_setting_get(int index, const struct belay_config *config,
						 struct belay_setting *ret_setting);

/** A CUDA device, as this process sees it. */
struct belay_device {
	size_t size;   /**< sizeof(struct belay_device), set by the caller */
	char name[64]; /**< the model's */
	char uuid[48]; /**< "GPU-" and the device's UUID */
	char pci[24];  /**< its PCI address, "0000:1b:00.0" */
	int numa_node; /**< of the host's memory next to it; -1: not known */
	int compute;   /**< compute capability, major * 10 + minor */
	int multiprocessors;
	int exports_memory; /**< 1: other processes can map its memory, as the symm path needs */
	int driver_version, runtime_version; /**< of CUDA, major * 1000 + minor * 10 */
	/* Bit d: of device d of this process. */
	uint64_t peer_access;  /**< its memory can be mapped here */
	uint64_t peer_atomics; /**< ... with native atomics */
	uint64_t peer_nvlink;  /**< ... over NVLink, as far as the driver tells */
};

/** How many CUDA devices this process can use, at most 64; 0 where belay is built without CUDA or
 * the driver is missing: belay_path_usable() says why. Initialises the driver, makes no context.
 * Any thread. */
BELAY_API int belay_device_count(void);

/**
 * Tells about a device.
 *
 * @param ordinal     0 .. belay_device_count() - 1, the number that BELAY_DEVICE takes
 * @param ret_device  size set by the caller
 * @return 0; BELAY_E_ARGUMENT; BELAY_E_SYSTEM (the driver does not answer)
 * Any thread. Makes no context, prints nothing.
 */
BELAY_API BELAY_MUST_CHECK int belay_device_get(int ordinal, struct belay_device *ret_device);

/**
 * Whether this process could take a path, as far as one process can tell; ranks find out together
 * at creation. BELAY_PATHS is not looked at.
 *
 * @param ret_why  receives what the path stands on, or what is missing, for a person; lives until
 * the thread's next call of this function; may be NULL
 * @return 1: it could; 0: it could not
 * Any thread. For the NCCL path NCCL is loaded, if there is a device.
 */
BELAY_API int belay_path_usable(enum belay_path path, const char **ret_why);

/** A process that is looked at from outside. Opaque; made by belay_process_open(). */
struct belay_process;

/** A communicator of such a process, as its control segment shows it. */
struct belay_process_comm {
	size_t size; /**< sizeof(struct belay_process_comm), set by the caller */
	char id[40]; /**< as belay_comm_id() */
	int nranks;
	enum belay_path path;
	enum belay_breaker_state breaker;
	uint64_t rescued_seqs; /**< seqs rescued, each counted once */
	int has_verdict;
	struct belay_verdict verdict;  /**< when has_verdict is 1 */
	int hosts, host, world_nranks; /**< as in struct belay_place */
};

/**
 * Looks at the communicators of a process on this host, which may run, hang or be stopped: reads
 * memory only, waits for nobody, and the process does not notice. Needs the right to open its
 * /proc/PID/fd: the same user, or CAP_SYS_PTRACE.
 *
 * @param pid          the process
 * @param ret_process  end it with belay_process_close(); it may hold no communicator
 * @return 0; BELAY_E_ARGUMENT; BELAY_E_NO_MEMORY; BELAY_E_SYSTEM (no such process, or no right;
 *   belay_last_error() tells)
 * Any thread. Does not block.
 */
BELAY_API BELAY_MUST_CHECK int belay_process_open(int pid, struct belay_process **ret_process);

/** Ends the look. NULL is allowed and does nothing. */
BELAY_API void belay_process_close(struct belay_process *process);

/** The number of communicators found when the process was opened; 0 for NULL. */
BELAY_API int belay_process_comm_count(const struct belay_process *process);

/** One communicator as it stands now; index 0 .. count - 1. @return 0; BELAY_E_ARGUMENT. Does not
 * block. */
BELAY_API BELAY_MUST_CHECK int belay_process_comm(const struct belay_process *process, int index,
						  struct belay_process_comm *ret_comm);

/** One of its ranks as it stands now, in this process or another. @return 0; BELAY_E_ARGUMENT.
 * Does not block. */
BELAY_API BELAY_MUST_CHECK int belay_process_rank(const struct belay_process *process, int index,
						  int rank, struct belay_rank_health *ret_health);

#ifdef __cplusplus
}
#endif

#endif /* BELAY_H */
