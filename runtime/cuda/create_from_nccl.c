/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creation from an NCCL communicator that the program has: it tells who the ranks are and where,
 * and carries the new communicator's id to them, in one gather of greetings. Every rank sends one,
 * a rank that cannot go on too: nobody is left in a gather that one does not join. Nothing of
 * NCCL's is kept.
 *
 *   all ranks on one host      one communicator of all of them
 *   on several                 refused; or, where all ask for that, one communicator on each host,
 *                              which only watches, and a second gather: either all hosts have one
 *                              then, or none
 */
#include "config.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/symm_layout.h"
#include "runtime/belay.h"
#include "runtime/cause.h"
#include "runtime/clock.h"
#include "runtime/communicator.h"
#include "runtime/cuda/nccl_gather.h"
#include "runtime/group/handshake.h"
#include "runtime/group/unique_id.h"
#include "runtime/settings.h"

/* A rank with bad settings does not wait long for the others to hear of it. */
#define TELL_NS	     (2 * NS_PER_SECOND)
#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"
#define NETWORK_FILE "/proc/self/ns/net"
/* Its last byte is a version: ranks whose greeting means something else are told apart. */
#define GREETING	       UINT64_C(0x32636e79616c6562) /* "belaync2" */
#define GREETING_VERSION_SHIFT 56

/* What ranks tell each other. Of one size in all versions, or NCCL could not gather it. */
struct greeting {
	uint64_t magic;
	int32_t status; /* not 0: this rank cannot go on */
	uint32_t user;
	uint64_t network; /* namespace in which ranks can meet */
	uint64_t host[2]; /* hash of BELAY_HOST_ID or of the boot's id */
	uint32_t hosts;	  /* enum belay_hosts */
	uint32_t reserved[3];
	uint64_t settings;	   /* hash of those that must agree */
	struct belay_unique_id id; /* that of the lowest rank of each host is used */
};
static_assert(sizeof(struct greeting) == 192, "as in every version");

/* One creation. */
struct arrival {
	struct settings settings;
	struct belay_config config; /* in full */
	struct cause_chain *causes;
	struct nccl_gather *gather;
	struct greeting own;
	/* What the greetings have told. */
	struct belay_unique_id id;
	struct comm_world world; /* nranks 0: all ranks are of one host */
	int rank, nranks;	 /* in the communicator to be */
};

/* ---- greetings ------------------------------------------------------------------------------- */

static void read_boot_id(char *ret_id, size_t size)
{
	FILE *file = fopen(BOOT_ID_FILE, "re");

	/* Unknown is the same everywhere; then the ranks do not meet, and that is told. */
	if (!file || !fgets(ret_id, (int)size, file))
		ret_id[0] = '\0';
	if (file)
		(void)fclose(file);
	ret_id[strcspn(ret_id, "\n")] = '\0';
}

/* What a host goes by; only told apart, so a hash will do. */
static void name_host(const char *given, uint64_t ret_host[2])
{
	char boot_id[40];

	if (!given || !given[0])
		read_boot_id(boot_id, sizeof(boot_id));
	for (uint64_t i = 0; i < 2; i++)
		ret_host[i] = given && given[0] ? handshake_hash(given, strlen(given), 1 + i)
						: handshake_hash(boot_id, strlen(boot_id), 3 + i);
}

static void greet(struct arrival *a, int status)
{
	struct greeting *own = &a->own;
	struct stat network;
	char agree[2048];

	memset(own, 0, sizeof(*own));
	own->magic = GREETING;
	own->user = (uint32_t)geteuid();
	if (stat(NETWORK_FILE, &network) == 0)
		own->network = network.st_ino;
	name_host(a->settings.text[SETTING_host_id], own->host);
	own->hosts = a->config.hosts;
	if (status == 0)
		status = settings_agree_text(&a->settings, agree, sizeof(agree));
	if (status == 0)
		own->settings = handshake_hash(agree, strlen(agree), 0);
	if (status == 0)
		status = belay_unique_id_create(&own->id);
	own->status = status;
}

static const struct greeting *greeting_of(const struct arrival *a, int rank)
{
	return nccl_gather_record(a->gather, rank);
}

/* 0 when that rank can join, wherever it is. */
static int check_one(const struct arrival *a, int rank)
{
	const struct greeting *other = greeting_of(a, rank);
	uint64_t differs = other->magic ^ GREETING;
	int own_rank = nccl_gather_rank(a->gather);

	if (differs)
		cause_add(a->causes, NULL, 0, own_rank, 0,
			  differs >> GREETING_VERSION_SHIFT << GREETING_VERSION_SHIFT == differs
				  ? "rank %d has another version of belay"
				  : "rank %d took part with something else than this function",
			  rank);
	else if (other->status)
		cause_add(a->causes, NULL, 0, own_rank, 0, "rank %d cannot join: %s", rank,
			  belay_status_text(other->status));
	else if (other->hosts != a->own.hosts)
		cause_add(a->causes, NULL, 0, own_rank, 0,
			  "belay_config.hosts is %u on rank %d and %u here", other->hosts, rank,
			  a->own.hosts);
	else
		return 0;
	return BELAY_E_REFUSED;
}

static int check_all(const struct arrival *a)
{
	int status = 0;

	for (int r = 0; r < nccl_gather_nranks(a->gather) && status == 0; r++)
		status = check_one(a, r);
	return status;
}

/* ---- hosts ----------------------------------------------------------------------------------- */

/* Why two ranks cannot meet; NULL: they can. */
static const char *apart(const struct greeting *one, const struct greeting *other)
{
	if (memcmp(one->host, other->host, sizeof(one->host)) != 0)
		return "on another host";
	if (one->network != other->network)
		return "in another network namespace";
	return one->user != other->user ? "another user's" : NULL;
}

/* The lowest rank that a rank can meet: what its host goes by. */
static int first_of_host(const struct arrival *a, int rank)
{
	int r = 0;

	while (r < rank && apart(greeting_of(a, r), greeting_of(a, rank)))
		r++;
	return r;
}

/* More ranks than a communicator can have, on one host: the same answer on all ranks, whichever
 * host it is. */
static int check_size(const struct arrival *a, int first, int max)
{
	int n = 0;

	for (int r = first; r < nccl_gather_nranks(a->gather); r++)
		n += !apart(greeting_of(a, first), greeting_of(a, r));
	if (n <= max)
		return 0;
	cause_add(a->causes, NULL, 0, nccl_gather_rank(a->gather), 0,
		  "the NCCL communicator has %d ranks on the host of rank %d: expected at most %d",
		  n, first, max);
	return BELAY_E_UNSUPPORTED;
}

/* Counts hosts by their lowest ranks, and takes down whom this rank can meet. */
static int find_host(struct arrival *a)
{
	struct comm_world *world = &a->world;
	int own = nccl_gather_rank(a->gather), first = first_of_host(a, own), status = 0;

	world->nranks = nccl_gather_nranks(a->gather);
	for (int r = 0; r < world->nranks && status == 0; r++) {
		if (first_of_host(a, r) == r) {
			world->hosts++;
			status = check_size(a, r, SYMM_RANKS_MAX);
		}
		if (r == first)
			world->host = world->hosts;
	}
	for (int r = first; r < world->nranks && status == 0; r++) {
		if (apart(greeting_of(a, first), greeting_of(a, r)))
			continue;
		if (r == own)
			a->rank = a->nranks;
		world->rank[a->nranks++] = r;
	}
	a->id = greeting_of(a, first)->id;
	return status;
}

/* The hosts' settings must agree too, or their calls would not be numbered and end alike. Where
 * ranks of one host differ that host's meeting will name both values, and the second gather ends it
 * for all. */
static int check_settings(const struct arrival *a)
{
	int other = -1;

	for (int r = 1; r < nccl_gather_nranks(a->gather); r++) {
		int first = first_of_host(a, r);

		if (greeting_of(a, r)->settings != greeting_of(a, first)->settings)
			return 0;
		if (other < 0 && greeting_of(a, first)->settings != greeting_of(a, 0)->settings)
			other = first;
	}
	if (other < 0)
		return 0;
	cause_add(a->causes, NULL, 0, nccl_gather_rank(a->gather), 0,
		  "ranks 0 and %d, on different hosts, differ in settings that must agree", other);
	return BELAY_E_REFUSED;
}

/* The same on all hosts, and nothing of the secret in it. */
static int name_world(struct arrival *a)
{
	char meeting[UNIQUE_ID_MEETING_BYTES];
	uint8_t secret[16];
	size_t length = sizeof(meeting) - 1;
	int status = unique_id_parse(&greeting_of(a, 0)->id, meeting, secret);

	if (status == 0)
		snprintf(a->world.name, sizeof(a->world.name), "%016llx%08llx",
			 (unsigned long long)handshake_hash(meeting, length, 1),
			 (unsigned long long)handshake_hash(meeting, length, 2) >> 32);
	return status ? BELAY_E_REFUSED : 0;
}

/* A rank that this one cannot meet; -1: there is none. */
static int stranger(const struct arrival *a)
{
	for (int r = 0; r < nccl_gather_nranks(a->gather); r++)
		if (apart(&a->own, greeting_of(a, r)))
			return r;
	return -1;
}

/* Follows from the greetings alone, so all ranks go the same way. */
static int find_place(struct arrival *a)
{
	int other = stranger(a), status;

	if (other >= 0 && a->own.hosts == BELAY_HOSTS_OWN) {
		status = find_host(a);
		if (status == 0)
			status = check_settings(a);
		return status ? status : name_world(a);
	}
	if (other >= 0) {
		cause_add(a->causes, NULL, 0, nccl_gather_rank(a->gather), 0,
			  "rank %d of the NCCL communicator is %s; belay connects the ranks of one "
			  "user on one host",
			  other, apart(&a->own, greeting_of(a, other)));
		return BELAY_E_UNSUPPORTED;
	}
	a->id = greeting_of(a, 0)->id;
	a->rank = nccl_gather_rank(a->gather);
	a->nranks = nccl_gather_nranks(a->gather);
	return check_size(a, 0, BELAY_RANKS_MAX);
}

/* ---- creation -------------------------------------------------------------------------------- */

/* The rank's settings, and its config in full. */
static int read_settings(struct arrival *a, const struct belay_config *config)
{
	int status = settings_read_config(config, &a->config, a->causes);

	if (status == 0)
		status = settings_load(config, &a->settings, a->causes);
	if (status == 0)
		cause_chain_set_level(a->causes, a->settings.log_level);
	if (status == 0 && a->config.hosts > BELAY_HOSTS_OWN) {
		cause_add(a->causes, NULL, 0, -1, 0,
			  "belay_config.hosts is %u: expected one of enum belay_hosts",
			  a->config.hosts);
		status = BELAY_E_ARGUMENT;
	}
	return status;
}

/* Which of several NCCLs; of settings that are bad no more than the config is known. */
static const char *library_of(const struct arrival *a)
{
	if (a->settings.text[SETTING_nccl_library])
		return a->settings.text[SETTING_nccl_library];
	return a->config.nccl_library ? a->config.nccl_library : "";
}

/* A rank whose settings are bad (so told already) goes to tell the others. */
static int meet(struct arrival *a, struct ncclComm *nccl, int bad)
{
	int status = nccl_gather_begin(nccl, library_of(a), sizeof(a->own), &a->gather, a->causes);

	if (status)
		return bad ? bad : status;
	greet(a, bad);
	status = nccl_gather_run(a->gather, &a->own, bad ? TELL_NS : a->settings.start_ns,
				 a->causes);
	if (bad || status)
		return bad ? bad : status;
	status = a->own.status; /* no random numbers */
	if (status == 0)
		status = check_all(a);
	return status ? status : find_place(a);
}

static void keep(struct arrival *a, int status)
{
	cause_add(a->causes, NULL, 0, -1, 0, "creation failed: %s (%s)", belay_status_text(status),
		  belay_status_name(status));
	cause_keep_as_last_error(a->causes);
	cause_flush(a->causes, BELAY_LOG_ERROR);
}

/* All hosts or none. Each has had BELAY_START_MS, and may have begun that much later. */
static int agree(struct arrival *a, int status, struct belay_comm **comm)
{
	int agreed;

	a->own.status = status;
	agreed = nccl_gather_run(a->gather, &a->own, 2 * a->settings.start_ns, a->causes);
	if (status)
		return status; /* told already */
	if (agreed == 0)
		agreed = check_all(a);
	if (agreed) {
		(void)belay_comm_destroy(*comm);
		*comm = NULL;
		keep(a, agreed);
	}
	return agreed;
}

/* The config with the device that NCCL's communicator is on. */
static int create(struct arrival *a, struct belay_comm **ret_comm)
{
	struct belay_comm *comm = NULL;
	char device[16];
	int status;

	snprintf(device, sizeof(device), "%d", nccl_gather_device(a->gather));
	if (!a->config.device)
		a->config.device = device;
	status = comm_create_in_world(&comm, &a->id, a->rank, a->nranks, &a->config, &a->world);
	if (a->world.nranks)
		status = agree(a, status, &comm);
	if (status == 0)
		*ret_comm = comm;
	return status;
}

int belay_comm_create_from_nccl(struct belay_comm **ret_comm, struct ncclComm *nccl,
				const struct belay_config *config)
{
	struct arrival a = {.config = BELAY_CONFIG_INIT};
	struct cause_config told = {.level = BELAY_LOG_WARN, .rank = -1};
	int status;

	if (!ret_comm || !nccl)
		return BELAY_E_ARGUMENT;
	if (config) {
		told.log = config->log;
		told.log_user = config->log_user;
	}
	a.causes = cause_chain_create(&told);
	if (!a.causes)
		return BELAY_E_NO_MEMORY;
	status = meet(&a, nccl, read_settings(&a, config));
	if (status)
		keep(&a, status);
	else
		status = create(&a, ret_comm);
	nccl_gather_end(a.gather);
	settings_free(&a.settings);
	cause_chain_free(a.causes);
	return status;
}
