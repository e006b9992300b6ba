/* SPDX-License-Identifier: Apache-2.0 */
/* Creation and end of the device side of a communicator; see device.h. Sharing of regions:
 * device_share.c. */
#include "config.h"

#include "runtime/cuda/device.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/cuda/device_calls.h"
#include "runtime/cuda/device_clock.h"
#include "runtime/cuda/device_inside.h"
#include "runtime/cuda/device_records.h"
#include "runtime/cuda/device_topology.h"
#include "runtime/cuda/nccl_worker.h"
#include "runtime/cuda/posted_words.h"
#include "runtime/number_text.h"
#include "runtime/outcome/watcher.h"

/* Over the longest hard deadline: when a kernel leaves by itself, nobody having answered it. */
#define LAST_MARGIN_NS (10 * NS_PER_SECOND)
/* For kernels that were ordered to leave: they look every few microseconds. */
#define LEAVE_WAIT_NS (2 * NS_PER_SECOND)
/* A kernel's last posts come a little before its end. */
#define TAIL_WAIT_NS (10 * NS_PER_MS)
/* Behind a verdict the kernels of a whole graph may still be coming and leaving. */
#define TAIL_WAIT_FAILED_NS (100 * NS_PER_MS)
/* For the last records. */
#define RECORDS_WAIT_NS (NS_PER_SECOND / 2)
/* Of a communicator that only watches: the least that a layout can have. */
#define WATCH_BYTES 4096
/* CUDA_ERROR_OUT_OF_MEMORY */
#define CODE_OUT_OF_MEMORY 2

/* ---- errors ---------------------------------------------------------------------------------- */

void device_error_text(const struct gpu_error *error, char *text, size_t size)
{
	snprintf(text, size, "%s: %s (%d)", error->call, error->text, error->code);
}

int device_cause(struct belay_comm *comm, const char *what, const struct gpu_error *error)
{
	char text[256];

	device_error_text(error, text, sizeof(text));
	cause_add(comm->causes, NULL, 0, (int)comm->rank, 0, "%s: %s", what, text);
	return error->code == CODE_OUT_OF_MEMORY ? BELAY_E_NO_MEMORY : BELAY_E_SYSTEM;
}

/* The watcher proposes the verdict for it, from the first open turn on. */
static void complain(struct belay_comm *comm)
{
	uint64_t turn = device_done(comm, comm->rank) + 1;

	(void)mailbox_complain(&comm->mailbox, COMPLAINT_GPU_FAULT, turn, clock_now_ns());
	watcher_kick(comm->watcher);
}

void device_fault(struct belay_comm *comm, const struct gpu_error *error, const char *what)
{
	struct device_lost *lost = &comm->device->lost;
	uint32_t none = 0;

	/* Acquire and release: one thread writes the text, whoever reads 2 sees it. */
	if (atomic_compare_exchange_strong_explicit(&lost->state, &none, 1, memory_order_acquire,
						    memory_order_relaxed)) {
		snprintf(lost->text, sizeof(lost->text), "%s: %s: %s (%d)", what, error->call,
			 error->text, error->code);
		lost->sticky = error->sticky;
		atomic_store_explicit(&lost->state, 2, memory_order_release);
		cause_add(comm->causes, NULL, 0, (int)comm->rank, 0, "%s", lost->text);
	}
	complain(comm);
}

const char *device_fault_text(const struct belay_comm *comm)
{
	const struct device_lost *lost = comm->device ? &comm->device->lost : NULL;

	return lost && atomic_load_explicit(&lost->state, memory_order_acquire) == 2 ? lost->text
										     : NULL;
}

/* ---- which device ---------------------------------------------------------------------------- */

static int refuse(const struct settings *settings, struct cause_chain *causes, int status,
		  const char *why)
{
	cause_add(causes, NULL, 0, -1, 0, "BELAY_DEVICE='%s' (%s): %s",
		  settings->text[SETTING_device],
		  setting_origin_name(settings->origin[SETTING_device]), why);
	return status;
}

/* A device by its number: it must be there. */
static int find_device(const struct settings *settings, uint64_t number, int *ret_ordinal,
		       struct cause_chain *causes)
{
	const char *why = "";
	char text[80];
	int devices = 0;

	if (!gpu_find(&devices, &why))
		return refuse(settings, causes, BELAY_E_UNSUPPORTED, why);
	if (number >= (uint64_t)devices) {
		snprintf(text, sizeof(text), "there %s %d CUDA device%s",
			 devices == 1 ? "is" : "are", devices, devices == 1 ? "" : "s");
		return refuse(settings, causes, BELAY_E_SETTING, text);
	}
	*ret_ordinal = (int)number;
	return 0;
}

int device_check_setting(const struct settings *settings, struct cause_chain *causes)
{
	const char *text = settings->text[SETTING_device];
	uint64_t number;

	if (strcmp(text, "host") == 0 || strcmp(text, "auto") == 0 ||
	    number_parse(text, strlen(text), &number) == 0)
		return 0;
	return refuse(settings, causes, BELAY_E_SETTING,
		      "expected host, auto or the number of a CUDA device");
}

int device_wanted(const struct settings *settings, int *ret_ordinal, struct cause_chain *causes)
{
	const char *text = settings->text[SETTING_device];
	uint64_t number;

	if (strcmp(text, "host") == 0) {
		*ret_ordinal = -1;
		return 0;
	}
	if (strcmp(text, "auto") == 0) {
		*ret_ordinal = gpu_current();
		return 0;
	}
	if (number_parse(text, strlen(text), &number))
		return device_check_setting(settings, causes);
	return find_device(settings, number, ret_ordinal, causes);
}

/* ---- being a guest --------------------------------------------------------------------------- */

int device_visit_begin(int ordinal, struct device_visit *ret_visit, struct gpu_error *ret_error)
{
	if (gpu_use(ordinal, &ret_visit->context, ret_error))
		return -1;
	ret_visit->capture = gpu_capture_relax();
	return 0;
}

void device_visit_end(const struct device_visit *visit)
{
	gpu_capture_restore(visit->capture);
	gpu_restore(visit->context);
}

int device_settle(struct device *device, struct gpu_error *ret_error)
{
	int done =
		gpu_stream_wait(device->stream, clock_now_ns() + DEVICE_STREAM_WAIT_NS, ret_error);

	if (done == 0) {
		*ret_error = (struct gpu_error){.call = "waiting for the stream"};
		snprintf(ret_error->text, sizeof(ret_error->text), "not done after %u s",
			 (unsigned)(DEVICE_STREAM_WAIT_NS / NS_PER_SECOND));
	}
	return done == 1 ? 0 : -1;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int load_kernels(struct gpu_error *ret_error)
{
	const char *what = "symm_kernels_load";
	int code = symm_kernels_load(&what);

	if (code)
		gpu_launch_error(code, what, ret_error);
	return code ? -1 : 0;
}

/* Where the control segment's words of this rank, and every rank's posts, lie for kernels. */
static void point_to_words(const struct belay_comm *comm, const char *mapped,
			   struct symm_comm *symm)
{
	const char *head = (const char *)comm->control.head;
	const struct control_device *devices = comm->control.device;

#define ON_DEVICE(field) ((void *)(uintptr_t)(mapped + ((const char *)(field)-head)))
	symm->steps = ON_DEVICE(&comm->own->staged);
	symm->descriptions = ON_DEVICE(comm->own->call);
	symm->posts = ON_DEVICE(&devices[comm->rank].posts);
	symm->orders = ON_DEVICE(&devices[comm->rank].orders);
	for (unsigned r = 0; r < comm->nranks; r++)
		symm->posts_of[r] = ON_DEVICE(&devices[r].posts);
#undef ON_DEVICE
}

static void plan(const struct belay_comm *comm, struct device *device)
{
	const struct settings *settings = &comm->settings;
	struct symm_comm *symm = &device->symm;
	uint64_t give_up = settings->give_up_ns > settings->warmup_give_up_ns
				   ? settings->give_up_ns
				   : settings->warmup_give_up_ns;

	symm_layout_make(comm->nranks,
			 comm_only_watches(comm) ? WATCH_BYTES : settings->symm_max_bytes,
			 &symm->layout);
	device->turn_bytes = symm->layout.symm_bytes;
	device->region_bytes = symm->layout.stride;
	symm->rank = comm->rank;
	symm->nranks = comm->nranks;
	symm->late_ns = settings->late_ns;
	symm->last_ns = give_up + LAST_MARGIN_NS;
}

static int take_memory(struct belay_comm *comm, struct device *device, struct gpu_error *ret_error)
{
	void *head = comm->control.head, *mapped = NULL, *state = NULL, *answers = NULL;

	if (gpu_host_register(head, comm->control.mapped_bytes, &mapped, ret_error))
		return -1;
	device->registered = head;
	point_to_words(comm, mapped, &device->symm);
	if (gpu_alloc(sizeof(struct symm_state), &state, ret_error))
		return -1;
	device->symm.state = state;
	if (gpu_host_alloc(sizeof(*device->answers), &answers, ret_error))
		return -1;
	device->answers = answers;
	memset(answers, 0, sizeof(*device->answers));
	return 0;
}

static void tell_facts(const struct belay_comm *comm, const struct gpu_facts *facts)
{
	struct control_facts *told = &comm->control.device[comm->rank].facts;

	memcpy(told->uuid, facts->uuid, sizeof(told->uuid));
	snprintf(told->name, sizeof(told->name), "%s", facts->name);
	told->pci_domain = facts->pci_domain;
	told->pci_bus = facts->pci_bus;
	told->pci_device = facts->pci_device;
	told->numa_node = facts->numa_node;
	told->multiprocessors = (uint32_t)facts->multiprocessors;
	told->compute = (uint32_t)(facts->compute_major * 10 + facts->compute_minor);
	for (uint32_t i = 0; i < comm->faults.count; i++)
		if (comm->faults.list[i].kind == FAULT_SLOW_PUSH)
			told->asks_probe = 1;
	told->present = 1;
}

static int open_here(struct belay_comm *comm, struct device *device, const char **ret_what,
		     struct gpu_error *ret_error)
{
	*ret_what = "looking at the device";
	if (gpu_facts(device->ordinal, &device->facts, ret_error))
		return -1;
	*ret_what = "loading the kernels";
	if (load_kernels(ret_error))
		return -1;
	*ret_what = "making a stream";
	if (gpu_stream_create(&device->stream, ret_error))
		return -1;
	plan(comm, device);
	*ret_what = "taking memory";
	if (take_memory(comm, device, ret_error) || device_faults_load(comm, device, ret_error))
		return -1;
	tell_facts(comm, &device->facts);
	return 0;
}

int device_open(struct belay_comm *comm, int ordinal, struct device **ret_device)
{
	struct device *device = calloc(1, sizeof(*device));
	const char *what = "using the device";
	struct device_visit visit;
	struct gpu_error error = {.call = ""};
	int status;

	if (!device)
		return BELAY_E_NO_MEMORY;
	device->ordinal = ordinal;
	status = device_visit_begin(ordinal, &visit, &error);
	if (status) {
		free(device);
		return device_cause(comm, what, &error);
	}
	/* The caller's from here on, whatever fails: device_close() takes it in any state. */
	*ret_device = device;
	status = open_here(comm, device, &what, &error);
	device_visit_end(&visit);
	return status ? device_cause(comm, what, &error) : 0;
}

/* ---- starting -------------------------------------------------------------------------------- */

static void plan_launches(struct belay_comm *comm)
{
	struct device *device = comm->device;
	struct launch_table *table = &device->table;

	device->topology = topology_of(comm->control.device, comm->nranks);
	tuning_launch_table(&comm->tuning, comm->nranks, device->topology, table);
	table->blocks_max = topology_blocks_max(comm->control.device, comm->nranks);
	if (device->topology == TOPOLOGY_PCIE &&
	    topology_has_islands(comm->control.device, comm->nranks))
		table->islands = true;
	/* A tuning file's rows are taken as they stand. */
	table->pulls = comm->tuning.device[device->topology].nrows == 0 &&
		       topology_pushes_slowly(comm->control.device, comm->nranks);
	/* 0: no grid is one of which two may stand there. */
	table->pair_blocks_max =
		comm->tuning.plain_launches
			? 0
			: topology_pair_blocks_max(comm->control.device, comm->nranks);
}

/* Block words of a rank, and tags of all parts, pass through the bounce memory too. */
#define BOUNCE_BYTES_MIN 4096u

/* What a rescue needs: it may neither allocate nor load anything beside a kernel that waits. */
static int prepare_rescue(struct belay_comm *comm, struct gpu_error *ret_error)
{
	struct device *device = comm->device;
	void *parts = NULL, *bounce = NULL;

	device->parts_stride = ((size_t)device->turn_bytes + 15) / 16 * 16 + DEVICE_PART_HEAD;
	if (gpu_alloc(comm->nranks * device->parts_stride, &parts, ret_error))
		return -1;
	device->parts = parts;
	device->bounce_bytes = (size_t)device->turn_bytes;
	if (device->bounce_bytes < BOUNCE_BYTES_MIN)
		device->bounce_bytes = BOUNCE_BYTES_MIN;
	if (gpu_host_alloc(device->bounce_bytes, &bounce, ret_error))
		return -1;
	device->bounce = bounce;
	return 0;
}

/* With causes. */
static int start_parts(struct belay_comm *comm)
{
	struct device *device = comm->device;

	device->calls = device_calls_create();
	if (!device->calls)
		return BELAY_E_NO_MEMORY;
	device->records = device_records_create(comm);
	if (!device->records)
		return BELAY_E_NO_MEMORY;
	device->clock = device_clock_create(comm);
	return device->clock ? 0 : BELAY_E_NO_MEMORY;
}

int device_start(struct belay_comm *comm)
{
	struct gpu_error error = {.call = ""};
	struct device_visit visit;
	int status;

	if (!comm->device->ready)
		return BELAY_E_SYSTEM; /* device_share() has left the causes */
	if (device_visit_begin(comm->device->ordinal, &visit, &error))
		return device_cause(comm, "using the device", &error);
	plan_launches(comm);
	status = prepare_rescue(comm, &error);
	if (status)
		status = device_cause(comm, "taking memory for rescues", &error);
	else
		status = start_parts(comm);
	device_visit_end(&visit);
	return status;
}

/* ---- the end --------------------------------------------------------------------------------- */

bool device_ended(const struct belay_comm *comm, uint64_t ticket)
{
	const struct symm_posts *posts = &comm->control.device[comm->rank].posts;

	/* [POSTS] (2), twice. Both words come in one store, so the turn is the ticket's or that of
	 * a later one. */
	return post_load(&posts->ticket) >= ticket &&
	       post_load(&posts->ticket_turn) <= device_done(comm, comm->rank);
}

/* A turn has begun and is not done. Kernels of graphs have no tickets. */
static bool is_in_turn(const struct belay_comm *comm)
{
	const struct symm_posts *posts = &comm->control.device[comm->rank].posts;
	uint64_t ended = SYMM_BLOCK_TURN(post_load(&posts->block[0]));
	uint64_t staged = device_staged(comm);

	return (staged > ended ? staged : ended) > device_done(comm, comm->rank);
}

bool device_idle(const struct belay_comm *comm)
{
	return device_ended(comm, device_tickets(comm->device)) && !is_in_turn(comm);
}

static void pause_ns(uint64_t ns)
{
	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = (long)ns}, NULL);
}

static bool wait_for_launches(const struct belay_comm *comm, uint64_t wait_ns)
{
	uint64_t deadline = clock_now_ns() + wait_ns;

	while (!device_idle(comm)) {
		if (clock_now_ns() >= deadline)
			return false;
		pause_ns(NS_PER_MS / 10);
	}
	return true;
}

static bool any_launched(const struct belay_comm *comm)
{
	return device_tickets(comm->device) != 0 || device_staged(comm) >= comm->first_seq;
}

/* Belay's own streams have nothing left to do, and the context works. */
static bool own_work_ended(struct device *device)
{
	struct gpu_error error = {.sticky = false};

	return !device->stream ||
	       (gpu_stream_wait(device->stream, clock_now_ns() + LEAVE_WAIT_NS, &error) == 1);
}

/* Has kernels leave: those that wait, and one that was abandoned to the watcher, which has ended
 * and has no write on its stream any more (R3). */
static void order_to_leave(struct belay_comm *comm)
{
	struct symm_orders *orders = &comm->control.device[comm->rank].orders;

	order_store(&orders->fail_from, 1); /* [ORDERS] (1). Turns count from 1. */
	if (orders->abandon > orders->released >> 1 && own_work_ended(comm->device))
		order_store(&orders->released, orders->abandon << 1);
}

/*
 * True when no kernel of this rank can be running any more. Those that still wait are told that
 * every turn has failed. Launches from graphs have no tickets, and kernels that leave because of a
 * verdict post none: there the program's word counts that its streams have come past them
 * (belay_comm_destroy()), with some time for those that have not quite. Without a verdict a ticket
 * that does not come is a kernel that may still run.
 */
static bool end_launches(struct belay_comm *comm)
{
	bool failed = comm_decided(comm), ended = failed || device_idle(comm);

	if (!device_idle(comm))
		order_to_leave(comm);
	if (!ended)
		ended = wait_for_launches(comm, LEAVE_WAIT_NS);
	if (any_launched(comm))
		pause_ns(failed ? TAIL_WAIT_FAILED_NS : TAIL_WAIT_NS);
	return ended;
}

static void free_memory(struct device *device)
{
	gpu_stream_free(device->stream);
	device_unshare(device);
	gpu_free(device->private_);
	gpu_free(device->symm.state);
	gpu_free(device->fault_list);
	gpu_free(device->parts);
	if (device->bounce)
		gpu_host_free(device->bounce);
	if (device->answers)
		gpu_host_free(device->answers);
	if (device->registered)
		gpu_host_unregister(device->registered);
}

/* The trace is still open: the last records go there. */
static void free_parts(struct belay_comm *comm)
{
	struct device *device = comm->device;

	if (device->records)
		device_records_finish(comm, clock_now_ns() + RECORDS_WAIT_NS);
	device_clock_free(device->clock);
	device_records_free(device->records);
	device_calls_free(device->calls);
	nccl_worker_free(device->nccl);
}

bool device_close(struct belay_comm *comm)
{
	struct device *device = comm->device;
	struct gpu_error error;
	struct device_visit visit;
	bool ended = false;

	if (!device)
		return true;
	if (device_visit_begin(device->ordinal, &visit, &error) == 0) {
		ended = end_launches(comm);
		free_parts(comm);
		ended = ended && own_work_ended(device);
		if (ended)
			free_memory(device);
		device_visit_end(&visit);
	}
	/* What kernels may still use stays; the description of it is of no use to them. */
	free(device);
	comm->device = NULL;
	return ended;
}
