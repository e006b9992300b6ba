/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creation and destruction of a communicator.
 *
 *   settings and faults read      -> bad ones are errors before anybody is met
 *   rendezvous_begin()            all ranks are there and agree; memory and sockets received
 *   prepare_memory()              control segment and regions mapped, own words preset; the device
 *                                 opened, if calls are on device memory
 *   share_devices()               of such a communicator: device regions exchanged, NCCL loaded
 *   self_test()                   each rank writes to each peer, each owner verifies; barriers
 *                                 between
 *   rendezvous_agree()            the paths that work everywhere; the same choice on all ranks
 *   start()                       trace and watcher
 *   rendezvous_end()              nobody returns before all are ready
 */
#include "config.h"

#include "runtime/communicator.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/nccl_worker.h"
#include "runtime/group/environment_id.h"
#include "runtime/group/shared_memory.h"
#include "runtime/group/unique_id.h"
#include "runtime/outcome/rescue.h"
#include "runtime/outcome/verdict.h"
#include "runtime/outcome/watcher.h"
#include "runtime/path/choose_path.h"
#include "runtime/path/path.h"
#include "runtime/wait.h"

/* About 40 ns a poll: 80 us before the first yield where every rank has a core, 1 us where they
 * share. */
#define SPIN_POLLS	  2000
#define SPIN_POLLS_SHARED 20
#define YIELD_NS	  NS_PER_MS
/* Used until belay-bench --tune says better; see docs/performance.md. */
#define TWOSHOT_FROM_BYTES 32768

/* Measured, see docs/performance.md: from 1 MB on, turns of this size are up to twice as fast as
 * one. */
#define SLOT_BYTES_MAX ((size_t)512 << 10)
/* Of a communicator on a device: there nothing but the head of a region is used. */
#define SLOT_BYTES_DEVICE 64
/* How long a rank with a bad setting stays to tell the others. */
#define TELL_UNFIT_NS (500 * NS_PER_MS)

/* What only a creation needs. */
struct creation {
	struct belay_comm *comm;
	struct rendezvous *meeting;
	const char *place; /* where to meet */
	uint8_t secret[16];
	int ordinal; /* of the device whose memory calls are on; -1: host memory */
	uint64_t deadline_ns;
	char agree[2048];
	uint32_t usable; /* paths, by bit: that work for this rank; once agreed, for all */
	char reason[500];
};

/* ---- a communicator that has met nobody yet -------------------------------------------------- */

static void free_comm(struct belay_comm *comm)
{
	if (!comm)
		return;
	settings_free(&comm->settings);
	mailbox_destroy(&comm->mailbox);
	mailbox_destroy(&comm->commits);
	(void)pthread_mutex_destroy(&comm->note_lock);
	if (comm->fork_cookie)
		(void)munmap((void *)(uintptr_t)comm->fork_cookie, sizeof(uint32_t));
	cause_chain_free(comm->causes);
	free(comm);
}

/* A page that reads 0 in a forked child, whatever the parent wrote. */
static int make_fork_cookie(struct belay_comm *comm)
{
	_Atomic uint32_t *cookie = mmap(NULL, sizeof(*cookie), PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (cookie == MAP_FAILED)
		return BELAY_E_NO_MEMORY;
	atomic_init(cookie, 1); /* this thread is the only one that knows it yet */
	comm->fork_cookie = cookie;
	/* Kernels before 4.14 do not know it; then a child is not told apart, as documented. */
	(void)madvise((void *)cookie, sizeof(*cookie), MADV_WIPEONFORK);
	return 0;
}

static int new_comm(const struct belay_config *config, int rank, struct belay_comm **ret_comm)
{
	struct belay_comm *comm = aligned_alloc(LINE, (sizeof(*comm) + LINE - 1) / LINE * LINE);
	struct cause_config causes = {.level = BELAY_LOG_WARN, .rank = rank};
	int status;

	if (!comm)
		return BELAY_E_NO_MEMORY;
	memset(comm, 0, sizeof(*comm));
	mailbox_init(&comm->mailbox);
	mailbox_init(&comm->commits);
	/* Default attributes: cannot fail on Linux. */
	(void)pthread_mutex_init(&comm->note_lock, NULL);
	if (config) {
		causes.log = config->log;
		causes.log_user = config->log_user;
	}
	comm->causes = cause_chain_create(&causes);
	status = comm->causes ? make_fork_cookie(comm) : BELAY_E_NO_MEMORY;
	if (status) {
		free_comm(comm);
		return status;
	}
	comm->members.control_fd = comm->members.region_fd = -1;
	for (int r = 0; r < BELAY_RANKS_MAX; r++)
		comm->members.pidfd[r] = comm->members.link[r] = -1;
	*ret_comm = comm;
	return 0;
}

/* Takes settings over into the struct; they may say where to meet, so this comes first. */
static int load_settings(struct creation *c, const struct belay_config *config)
{
	struct belay_comm *comm = c->comm;
	int status = settings_load(config, &comm->settings, comm->causes);
	struct belay_config full;

	if (status)
		return status;
	cause_chain_set_level(comm->causes, comm->settings.log_level);
	(void)settings_read_config(config, &full, comm->causes); /* settings_load() has, too */
	comm->verdict = full.verdict;
	comm->verdict_user = full.verdict_user;
	comm->first_seq = full.first_seq ? full.first_seq : 1;
	if (comm->first_seq > VERDICT_TURN_MAX / 2) {
		cause_add(comm->causes, NULL, 0, (int)comm->rank, 0,
			  "belay_config.first_seq is %" PRIu64 ": expected at most %" PRIu64,
			  comm->first_seq, (uint64_t)(VERDICT_TURN_MAX / 2));
		return BELAY_E_ARGUMENT;
	}
	status = faults_parse(comm->settings.text[SETTING_fault], &comm->faults, comm->causes);
	return status ? status : device_wanted(&comm->settings, &c->ordinal, comm->causes);
}

static void plan_waiting(struct belay_comm *comm)
{
	cpu_set_t allowed;
	unsigned cores = 1;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
		cores = (unsigned)CPU_COUNT(&allowed);
	/* A rank that has been pinned says nothing about the others: count what the machine has. */
	if (cores == 1 && sysconf(_SC_NPROCESSORS_ONLN) > 1)
		cores = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	comm->crowded = comm->nranks > cores;
	comm->spin_polls = comm->crowded ? SPIN_POLLS_SHARED : SPIN_POLLS;
	comm->yield_ns = comm->settings.late_ns < YIELD_NS ? comm->settings.late_ns : YIELD_NS;
}

static bool on_device(const struct creation *c)
{
	return c->ordinal >= 0;
}

static int check_ranks(const struct creation *c)
{
	struct belay_comm *comm = c->comm;

	if (on_device(c) && comm->nranks > SYMM_RANKS_MAX) {
		cause_add(comm->causes, NULL, 0, (int)comm->rank, 0,
			  "%u ranks: a communicator on devices has at most %d "
			  "(BELAY_DEVICE=%s, device %d)",
			  comm->nranks, SYMM_RANKS_MAX, comm->settings.text[SETTING_device],
			  c->ordinal);
		return BELAY_E_UNSUPPORTED;
	}
	if (comm_only_watches(comm) && !on_device(c)) {
		cause_add(comm->causes, NULL, 0, (int)comm->rank, 0,
			  "ranks on several hosts are watched on devices only (BELAY_DEVICE=%s)",
			  comm->settings.text[SETTING_device]);
		return BELAY_E_UNSUPPORTED;
	}
	return faults_check_ranks(&comm->faults, (int)comm->nranks, comm->causes);
}

static int plan(struct creation *c, int rank, int nranks)
{
	struct belay_comm *comm = c->comm;
	struct tuning *tuning = &comm->tuning;
	size_t used;
	int status;

	cause_chain_set_rank(comm->causes, rank);
	cause_chain_set_world(comm->causes, &comm->world);
	comm->rank = (unsigned)rank;
	comm->nranks = (unsigned)nranks;
	comm->turn = comm->seq = comm->first_seq - 1;
	plan_waiting(comm);
	tuning->twoshot_from_bytes = nranks == 2 ? UINT64_MAX : TWOSHOT_FROM_BYTES;
	status = tuning_load(comm->settings.text[SETTING_tune], comm->nranks, tuning, comm->causes);
	if (status == 0)
		status = check_ranks(c);
	if (status == 0)
		status = settings_agree_text(&comm->settings, c->agree, sizeof(c->agree));
	if (status)
		return status;
	used = strlen(c->agree);
	snprintf(c->agree + used, sizeof(c->agree) - used,
		 "first_seq=%" PRIu64 "\ntuning=%016" PRIx64 "\nmemory of calls=%s\n",
		 comm->first_seq, tuning->hash, on_device(c) ? "device" : "host");
	return 0;
}

/* ---- meeting --------------------------------------------------------------------------------- */

static void close_members(struct group_members *members)
{
	for (int r = 0; r < BELAY_RANKS_MAX; r++) {
		if (members->pidfd[r] >= 0)
			(void)close(members->pidfd[r]);
		if (members->link[r] >= 0)
			(void)close(members->link[r]);
	}
	if (members->control_fd >= 0)
		(void)close(members->control_fd);
	if (members->region_fd >= 0)
		(void)close(members->region_fd);
}

/* Slots that stay in a core's caches beat slots that take a large call whole
 * (docs/decisions/0005). */
static size_t slot_bytes(const struct creation *c)
{
	const struct belay_comm *comm = c->comm;

	if (on_device(c))
		return SLOT_BYTES_DEVICE;
	return comm->settings.symm_max_bytes < SLOT_BYTES_MAX ? comm->settings.symm_max_bytes
							      : SLOT_BYTES_MAX;
}

static int meet(struct creation *c)
{
	struct belay_comm *comm = c->comm;
	struct region_layout *layout = &comm->region.layout;
	struct group_members members;
	struct rendezvous_spec spec = {
		.meeting = c->place,
		.rank = (int)comm->rank,
		.nranks = (int)comm->nranks,
		.agree_text = c->agree,
		.control_bytes = control_segment_bytes(comm->nranks),
		.deadline_ns = c->deadline_ns,
		.faults = &comm->faults,
	};
	int status;

	region_layout(comm->nranks, slot_bytes(c),
		      on_device(c) ? 0 : comm->settings.buffer_max_bytes, layout);
	comm->turn_bytes = layout->slot_bytes;
	spec.region_stride = layout->stride;
	spec.region_bytes = layout->stride * comm->nranks;
	spec.region_reserved = layout->reserved_bytes;
	memcpy(spec.secret, c->secret, sizeof(spec.secret));
	status = rendezvous_begin(&spec, &c->meeting, &members, comm->causes);
	if (status)
		return status;
	comm->members = members;
	for (unsigned i = 0; i < 16; i++)
		snprintf(comm->id + 2 * i, 3, "%02x", members.comm_id[i]);
	/* All hosts' begin alike. */
	if (comm_only_watches(comm))
		snprintf(comm->id, sizeof(comm->id), "%s%08x", comm->world.name,
			 (unsigned)comm->world.host);
	return 0;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void veto(struct creation *c, enum belay_path path, const char *why)
{
	size_t used = strlen(c->reason);

	c->usable &= ~(1u << path);
	snprintf(c->reason + used, sizeof(c->reason) - used, "%s%s: %s", used ? "\n" : "",
		 belay_path_name(path), why);
}

/* A fault of this kind is to be injected into the start. */
static bool due_at_start(struct belay_comm *comm, enum fault_kind kind)
{
	return faults_armed(&comm->faults) && fault_take(&comm->faults, (int)comm->rank, 0,
							 FAULT_AT_HANDSHAKE, FAULT_BIT(kind), NULL);
}

static int open_region(struct creation *c)
{
	struct belay_comm *comm = c->comm;
	struct region_layout layout = comm->region.layout;
	int fd = comm->members.region_fd;

	if (fd < 0 && !on_device(c))
		veto(c, BELAY_PATH_HOST, comm->members.region_error);
	if (!on_device(c) && due_at_start(comm, FAULT_MAP_FAIL)) {
		veto(c, BELAY_PATH_HOST, "mapping the regions failed (injected)");
		fd = -1;
	}
	return region_open(&comm->region, &layout, comm->nranks, comm->rank, fd, comm->causes);
}

static int open_device(struct creation *c)
{
	struct belay_comm *comm = c->comm;
	int status = device_open(comm, c->ordinal, &comm->device);

	if (status)
		return status;
	comm->turn_bytes = (size_t)comm->device->turn_bytes;
	return 0;
}

static int prepare_memory(struct creation *c)
{
	struct belay_comm *comm = c->comm;
	size_t bytes = control_segment_bytes(comm->nranks);
	void *memory = NULL;
	int status = shared_memory_map(comm->members.control_fd, bytes, &memory, comm->causes);

	if (status)
		return status;
	control_segment_place(memory, comm->nranks, &comm->control);
	comm->own = &comm->control.rank[comm->rank];
	/* Best effort: head and words of all, own rings. */
	(void)shared_memory_prefault(memory,
				     (size_t)((char *)comm->control.rings - (char *)memory));
	(void)shared_memory_prefault((char *)comm->control.rings +
					     comm->rank * trace_ring_bytes(comm->nranks),
				     trace_ring_bytes(comm->nranks));
	control_rank_preset(comm->own, comm->turn, (int32_t)getpid(), clock_now_ns());
	if (comm->rank == 0) {
		comm->control.head->heartbeat_period_ns = comm->settings.heartbeat_ns;
		atomic_store_explicit(&comm->control.head->rescued_last, comm->turn,
				      memory_order_release);
		comm->control.head->for_device = on_device(c);
		comm->control.head->world = comm->world;
		control_segment_fill(&comm->control, comm->nranks, comm->id);
	}
	status = open_region(c);
	return status == 0 && on_device(c) ? open_device(c) : status;
}

static bool is_allowed(const struct belay_comm *comm, enum belay_path path)
{
	return memchr(comm->settings.paths, (int)path, comm->settings.npaths) != NULL;
}

/* Whatever fails here fails for this rank only: it goes on to every barrier and tells its veto in
 * the agreement. */
static int share_devices(struct creation *c)
{
	struct belay_comm *comm = c->comm;
	const char *refuse =
		due_at_start(comm, FAULT_MAP_FAIL) ? "mapping the regions failed (injected)" : NULL;
	char why[256] = "";
	int status = rendezvous_barrier(c->meeting); /* the ranks' facts are there */

	if (status)
		return status;
	if (device_share(comm, c->deadline_ns, refuse, why, sizeof(why)))
		veto(c, BELAY_PATH_SYMM, why);
	if (comm_only_watches(comm))
		return 0; /* the program's NCCL is all that it needs */
	/* Who excludes NCCL does not want it for rescues either. */
	if (comm->nranks == 1 || !is_allowed(comm, BELAY_PATH_NCCL))
		c->usable &= ~(1u << BELAY_PATH_NCCL);
	else if (nccl_worker_prepare(comm, why, sizeof(why)))
		veto(c, BELAY_PATH_NCCL, why);
	return 0;
}

static bool can_use(const struct creation *c, enum belay_path path)
{
	return c->usable >> path & 1;
}

static void write_patterns(struct creation *c)
{
	struct belay_comm *comm = c->comm;
	bool spoil = due_at_start(comm, FAULT_SELFTEST);
	char why[256];

	if (comm->region.base)
		region_selftest_write(&comm->region, comm->members.generation, spoil);
	if (comm->device && comm->device->shared &&
	    device_selftest_write(comm, comm->members.generation, spoil, why, sizeof(why)))
		veto(c, BELAY_PATH_SYMM, why);
}

static void verify_region(struct creation *c)
{
	struct belay_comm *comm = c->comm;
	char why[64];
	int wrong = comm->region.base
			    ? region_selftest_verify(&comm->region, comm->members.generation)
			    : -1;

	if (wrong < 0)
		return;
	snprintf(why, sizeof(why), "self-test: what rank %d stored is not here", wrong);
	veto(c, BELAY_PATH_HOST, why);
}

static void verify_patterns(struct creation *c)
{
	struct belay_comm *comm = c->comm;
	char why[256];

	if (!comm->device)
		verify_region(c);
	else if (can_use(c, BELAY_PATH_SYMM) &&
		 device_selftest_verify(comm, comm->members.generation, why, sizeof(why)))
		veto(c, BELAY_PATH_SYMM, why);
}

/* The owner verifies what its peers stored: a writer's own view proves nothing (F07). */
static int self_test(struct creation *c)
{
	int status = rendezvous_barrier(c->meeting);

	if (status)
		return status;
	write_patterns(c);
	status = rendezvous_barrier(c->meeting);
	if (status)
		return status;
	verify_patterns(c);
	return 0;
}

/* All ranks push, then all pull; not over links that a self-test has found to lead elsewhere. */
static int probe_links(struct creation *c)
{
	bool slow = due_at_start(c->comm, FAULT_SLOW_PUSH);
	uint32_t usable = 0;
	char reasons[8]; /* told by agree() */
	int status = rendezvous_agree(c->meeting, c->usable, c->reason, &usable, reasons,
				      sizeof(reasons));

	if (status || !(usable & 1u << BELAY_PATH_SYMM))
		return status;
	device_probe_links(c->comm, false, slow);
	status = rendezvous_barrier(c->meeting);
	if (status == 0)
		device_probe_links(c->comm, true, slow);
	return status;
}

/* Behind a barrier after nccl_worker_prepare(). */
static void join_nccl(struct creation *c)
{
	struct belay_comm *comm = c->comm;
	char why[256];

	if (comm->device && !comm_only_watches(comm) && can_use(c, BELAY_PATH_NCCL) &&
	    nccl_worker_join(comm, c->deadline_ns, &comm->device->nccl, why, sizeof(why)))
		veto(c, BELAY_PATH_NCCL, why);
}

/* ---- choice and start ------------------------------------------------------------------------ */

/* The ring's watchers serve calling threads on host memory and parked kernels on devices. */
static const struct path *path_of(enum belay_path path, bool device)
{
	static const struct path *const of_host[] = {&host_path, &ring_path};
	static const struct path *const of_device[] = {&symm_path, &nccl_path, &parked_path};

	for (size_t i = 0; device && i < sizeof(of_device) / sizeof(of_device[0]); i++)
		if (of_device[i]->id == path)
			return of_device[i];
	for (size_t i = 0; !device && i < sizeof(of_host) / sizeof(of_host[0]); i++)
		if (of_host[i]->id == path)
			return of_host[i];
	return NULL;
}

/* Paths that are for the other kind of memory are left out without a word, but where nothing else
 * is allowed. */
static int refuse_paths(const struct belay_comm *comm, int status)
{
	bool device = comm->device != NULL;
	char other[160] = "";
	size_t used = 0;

	for (uint32_t i = 0; i < comm->settings.npaths; i++) {
		enum belay_path path = (enum belay_path)comm->settings.paths[i];

		if (!path_of(path, device)) /* at most four short names: they fit */
			used += (size_t)snprintf(other + used, sizeof(other) - used,
						 "; %s carries calls on %s memory only",
						 belay_path_name(path), device ? "host" : "device");
	}
	cause_add(comm->causes, NULL, 0, (int)comm->rank, 0,
		  "no path of BELAY_PATHS=%s works on all ranks for calls on %s memory "
		  "(BELAY_DEVICE=%s)%s%s%s",
		  comm->settings.text[SETTING_paths], device ? "device" : "host",
		  comm->settings.text[SETTING_device], other, comm->reasons[0] ? "; " : "",
		  comm->reasons);
	return status;
}

static int agree(struct creation *c)
{
	struct belay_comm *comm = c->comm;
	enum belay_path chosen;
	uint32_t usable = 0;
	int status = rendezvous_agree(c->meeting, c->usable, c->reason, &usable, comm->reasons,
				      sizeof(comm->reasons));

	if (status)
		return status;
	if (comm_only_watches(comm))
		chosen = BELAY_PATH_NCCL; /* the program's: BELAY_PATHS is about belay's own */
	else
		status = choose_path(comm->settings.paths, comm->settings.npaths, usable, &chosen);
	if (status)
		return refuse_paths(comm, status);
	comm->path = path_of(chosen, comm->device != NULL);
	c->usable = usable;
	if (comm->device && !(usable >> BELAY_PATH_NCCL & 1)) {
		nccl_worker_free(comm->device->nccl); /* another rank has none */
		comm->device->nccl = NULL;
	}
	/* Relaxed: no other thread of this process is there yet. */
	atomic_store_explicit(&comm->path_id, chosen, memory_order_relaxed);
	if (comm->rank == 0) {
		comm->control.head->usable_paths = usable;
		comm->control.head->first_path = chosen;
	}
	return 0;
}

static void trace_message(void *user, const char *text)
{
	cause_message(user, BELAY_LOG_ERROR, text, "%s", text);
}

static int open_trace(struct belay_comm *comm)
{
	struct trace_config config = {
		.comm_id = comm->id,
		.rank = comm->rank,
		.nranks = comm->nranks,
		.rings = comm->control.rings,
		.log_dir = comm->settings.text[SETTING_log_dir],
		.file_bytes_max = comm->settings.log_file_bytes,
		.files_keep = comm->settings.log_files,
		.message = trace_message,
		.message_user = comm->causes,
	};

	return trace_open(&config, &comm->trace);
}

/* Not out of the head: rank 0 may not have filled it in yet, the barrier is still to come. */
static void trace_creation(const struct belay_comm *comm, uint32_t usable)
{
	struct event_record event = {
		.time_ns = clock_now_ns(),
		.kind = EVENT_COMM_CREATE,
		.peer = -1,
		.path = (uint8_t)comm->path->id,
		.value = comm->nranks,
		.mask = usable,
	};
	size_t used;

	used = (size_t)snprintf(event.text, sizeof(event.text), "%s", belay_version());
	if (comm->device && device_asks_link_probe(comm)) {
		snprintf(event.text + used, sizeof(event.text) - used, "; ");
		device_describe_links(comm, event.text + used + 2, sizeof(event.text) - used - 2);
		used = strlen(event.text);
	}
	if (comm_only_watches(comm)) {
		event.peer = comm->world.rank[comm->rank];
		snprintf(event.text + used, sizeof(event.text) - used, "; ");
		world_describe(&comm->world, comm->nranks, event.text + used + 2,
			       sizeof(event.text) - used - 2);
	}
	trace_event(comm->trace, &event);
	if (!comm->reasons[0])
		return;
	event.kind = EVENT_PATH_SWITCH;
	event.value = comm->settings.paths[0];
	event.seq = comm->first_seq;
	snprintf(event.text, sizeof(event.text), "%.*s", (int)sizeof(event.text) - 1,
		 comm->reasons);
	trace_event(comm->trace, &event);
}

static int start(struct creation *c)
{
	struct belay_comm *comm = c->comm;
	int status = open_trace(comm);

	if (status)
		return status;
	clock_calibrate();
	if (comm->device)
		status = device_start(comm);
	if (status)
		return status;
	status = watcher_start(comm, &comm->watcher);
	if (status)
		return status;
	trace_creation(comm, c->usable);
	if (comm->reasons[0])
		cause_message(comm->causes, BELAY_LOG_WARN, "paths",
			      "communicator %.8s takes the %s path: %s", comm->id,
			      belay_path_name(comm->path->id), comm->reasons);
	return 0;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Gives back everything after the rendezvous, in any state of creation. */
static void release(struct belay_comm *comm)
{
	bool unused;

	watcher_stop(comm->watcher);
	/* Before the trace: it hands the last records on. */
	unused = device_close(comm);
	(void)trace_close(comm->trace, clock_now_ns() + comm->settings.destroy_ns);
	region_close(&comm->region);
	if (comm->control.head && unused)
		(void)munmap(comm->control.head, comm->control.bytes);
	close_members(&comm->members);
	free_comm(comm);
}

static uint32_t paths_at_first(const struct creation *c)
{
	if (comm_only_watches(c->comm))
		return 1u << BELAY_PATH_NCCL;
	return 1u << BELAY_PATH_RING | (on_device(c) ? 1u << BELAY_PATH_SYMM | 1u << BELAY_PATH_NCCL
						     : 1u << BELAY_PATH_HOST);
}

static int join(struct creation *c)
{
	struct belay_comm *comm = c->comm;
	int status;

	c->deadline_ns = clock_now_ns() + comm->settings.start_ns;
	status = meet(c);

	if (status)
		return status;
	c->usable = paths_at_first(c);
	status = prepare_memory(c);
	if (status == 0 && comm->device)
		status = share_devices(c);
	if (status == 0)
		status = self_test(c);
	if (status == 0 && comm->device && !comm_only_watches(comm) && device_asks_link_probe(comm))
		status = probe_links(c);
	if (status == 0)
		join_nccl(c);
	if (status == 0)
		status = agree(c);
	if (status == 0)
		status = start(c);
	return rendezvous_end(c->meeting, status);
}

static int fail_creation(struct belay_comm *comm, int status)
{
	char part[200];

	/* What the ranks of a host have said to each other has their numbers there. */
	if (comm_only_watches(comm)) {
		world_describe(&comm->world, comm->nranks, part, sizeof(part));
		cause_add(comm->causes, NULL, 0, -1, 0, "rank numbers are within %s", part);
	}
	cause_add(comm->causes, NULL, 0, -1, 0, "creation failed: %s (%s)",
		  belay_status_text(status), belay_status_name(status));
	cause_keep_as_last_error(comm->causes);
	cause_flush(comm->causes, BELAY_LOG_ERROR);
	release(comm);
	return status;
}

/* This rank cannot take part; the others need not wait for it until their deadline. Briefly:
 * they may not come. */
static int tell_unfit(struct creation *c, int rank, int nranks, int status)
{
	struct rendezvous *meeting = NULL;
	struct group_members members;
	struct rendezvous_spec spec = {
		.meeting = c->place,
		.rank = rank,
		.nranks = nranks,
		.agree_text = "",
		.deadline_ns = clock_now_ns() + TELL_UNFIT_NS,
		.faults = &c->comm->faults,
		.unfit = status,
	};

	memcpy(spec.secret, c->secret, sizeof(spec.secret));
	if (nranks > 1)
		/* Never succeeds: it returns the status that it was told. */
		(void)rendezvous_begin(&spec, &meeting, &members, c->comm->causes);
	return fail_creation(c->comm, status);
}

static int create(struct creation *c, int rank, int nranks, struct belay_comm **ret_comm)
{
	int status = plan(c, rank, nranks);

	if (status == 0)
		status = join(c);
	if (status)
		return fail_creation(c->comm, status);
	*ret_comm = c->comm;
	return 0;
}

int comm_create_in_world(struct belay_comm **ret_comm, const struct belay_unique_id *id, int rank,
			 int nranks, const struct belay_config *config,
			 const struct comm_world *world)
{
	struct creation c = {0};
	char meeting[UNIQUE_ID_MEETING_BYTES];
	int status;

	if (!ret_comm || !id || nranks < 1 || nranks > BELAY_RANKS_MAX || rank < 0 ||
	    rank >= nranks || unique_id_parse(id, meeting, c.secret))
		return BELAY_E_ARGUMENT;
	status = new_comm(config, rank, &c.comm);
	if (status)
		return status;
	c.place = meeting;
	c.comm->world = *world;
	status = load_settings(&c, config);
	if (status)
		return tell_unfit(&c, rank, nranks, status);
	return create(&c, rank, nranks, ret_comm);
}

int belay_comm_create(struct belay_comm **ret_comm, const struct belay_unique_id *id, int rank,
		      int nranks, const struct belay_config *config)
{
	return comm_create_in_world(ret_comm, id, rank, nranks, config,
				    &(struct comm_world){.nranks = 0});
}

int belay_comm_create_from_env(struct belay_comm **ret_comm, const struct belay_config *config)
{
	struct creation c = {0};
	struct environment_id place;
	int status;

	if (!ret_comm)
		return BELAY_E_ARGUMENT;
	status = new_comm(config, -1, &c.comm);
	if (status)
		return status;
	status = load_settings(&c, config);
	if (status == 0)
		status = environment_id_read(c.comm->settings.text[SETTING_job], &place,
					     c.comm->causes);
	if (status)
		return fail_creation(c.comm, status);
	c.place = place.meeting;
	return create(&c, place.rank, place.nranks, ret_comm);
}

/* ---- destruction ----------------------------------------------------------------------------- */

/* C3: no peer can need this rank any more. Ranks that have left did this before; a verdict ends
 * all need. */
static bool not_needed(const struct belay_comm *comm)
{
	struct progress progress;
	uint64_t left = 0, last = comm->turn;

	if (comm_decided(comm))
		return true;
	if (comm->device) {
		if (!device_idle(comm))
			return false;
		/* Own kernels stage; the host has not counted those of graphs. */
		last = device_staged(comm);
	}
	comm_read_progress(comm, &progress);
	for (unsigned r = 0; r < comm->nranks; r++)
		if (atomic_load_explicit(&comm->control.rank[r].state, memory_order_acquire) ==
		    CONTROL_LEFT)
			left |= rank_bit(r);
	progress.dead |= left;
	for (unsigned r = 0; r < comm->nranks; r++)
		if (!(progress.dead >> r & 1) && progress.done[r] < last)
			return false;
	return true;
}

/* Polls once a millisecond: this is the end, and what is waited for may come without a wake. */
static int wait_until_not_needed(struct belay_comm *comm)
{
	uint64_t deadline = clock_now_ns() + comm->settings.destroy_ns;

	while (!not_needed(comm)) {
		if (clock_now_ns() >= deadline)
			return BELAY_E_TIMEOUT;
		clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = NS_PER_MS}, NULL);
	}
	return 0;
}

int belay_comm_destroy(struct belay_comm *comm)
{
	int status;

	if (!comm)
		return 0;
	if (comm_forked(comm))
		return BELAY_E_FORKED;
	if (faults_armed(&comm->faults))
		fault_act(&comm->faults, (int)comm->rank, comm->seq, FAULT_AT_DESTROY);
	status = wait_until_not_needed(comm);
	trace_event(comm->trace, &(struct event_record){.time_ns = clock_now_ns(),
							.kind = EVENT_COMM_DESTROY,
							.peer = -1,
							.value = (int64_t)comm->seq,
							.status = (int16_t)status});
	/* Release: whoever sees that this rank has left sees its last words. */
	atomic_store_explicit(&comm->own->state, CONTROL_LEFT, memory_order_release);
	rescue_tell_peers(comm);
	release(comm);
	return status;
}

int belay_comm_abort(struct belay_comm *comm)
{
	if (!comm)
		return BELAY_E_ARGUMENT;
	if (comm_forked(comm))
		return BELAY_E_FORKED;
	atomic_store_explicit(&comm->abort_asked, true, memory_order_release);
	watcher_kick(comm->watcher);
	return 0;
}
