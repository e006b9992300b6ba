/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>

#include "runtime/belay.h"
#include "tools/analyze/lttng_copy.h"
#include "tools/analyze/lttng_probe.h"
#include "tools/analyze/lttng_process.h"

/* A stream that is bad in more places is given up from there on: each costs a process, and may cost
 * the time for which a silent one is waited for. */
#define BAD_MAX	  64u
#define STUCK_MAX 2u

static const char bad_packet[] = "a packet that libbabeltrace2 cannot read";
static const char bad_rest[] = "libbabeltrace2 cannot read its packets from there on";

struct probe {
	const char *folder;
	struct ctf_check *check;
	size_t bad, stuck;
};

/* How far a reading came. */
struct reach {
	int opened; /* the trace as such can be read */
	int ended;
	int stuck;
	size_t packets;
};

static int count_packets(struct lttng_process *process, struct reach *reach)
{
	_Alignas(8) unsigned char payload[LTTNG_FRAME_BYTES_MAX];
	struct lttng_frame frame;
	enum lttng_receipt receipt;

	do {
		frame.kind = LTTNG_FRAME_PROBLEM;
		receipt = lttng_process_receive(process, &frame, payload);
		reach->opened |= frame.kind == LTTNG_FRAME_OPENED;
		reach->packets += frame.kind == LTTNG_FRAME_PACKET;
		reach->ended = frame.kind == LTTNG_FRAME_END;
	} while (receipt == LTTNG_RECEIVED && frame.kind != LTTNG_FRAME_END &&
		 frame.kind != LTTNG_FRAME_PROBLEM);
	reach->stuck = receipt == LTTNG_STUCK;
	return receipt == LTTNG_ABORTED ? BELAY_E_ABORTED : 0;
}

/* Reads a stream from one of its packets on. */
static int read_from(const struct probe *probe, size_t stream, size_t packet,
		     struct reach *ret_reach)
{
	struct lttng_copy copy = {.folder = ""};
	struct lttng_process process;
	int status = 0;

	*ret_reach = (struct reach){0};
	if (lttng_copy_make_part(&copy, probe->folder, probe->check, stream, packet) != 0)
		status = errno == EINTR ? BELAY_E_ABORTED : BELAY_E_SYSTEM;
	if (status == 0)
		status = lttng_process_start(&process, copy.folder, probe->check->bytes,
					     LTTNG_READ_PACKETS);
	if (status == 0) {
		status = count_packets(&process, ret_reach);
		(void)lttng_process_end(&process);
	}
	lttng_copy_remove(&copy);
	return status;
}

static void take_out(struct ctf_check *check, struct ctf_stream *stream, size_t packet,
		     const char *reason)
{
	struct ctf_packet *packets = stream->packets.items;

	ctf_extent_fault(&stream->extent, packets[packet].offset, reason);
	stream->extent.whole -= packets[packet].bytes;
	check->bytes -= packets[packet].bytes;
	packets[packet].bytes = 0;
}

static void take_out_rest(struct ctf_check *check, struct ctf_stream *stream, size_t packet)
{
	uint64_t faults = stream->extent.faults;

	for (; packet < stream->packets.count; packet++)
		take_out(check, stream, packet, bad_rest);
	stream->extent.faults = faults + 1; /* one stretch */
}

static int probe_stream(struct probe *probe, size_t i)
{
	struct ctf_stream *stream = (struct ctf_stream *)probe->check->streams.items + i;
	size_t from = 0;
	int status = 0;

	while (from < stream->packets.count) {
		struct reach reach;

		status = read_from(probe, i, from, &reach);
		if (status != 0 || reach.ended || !reach.opened)
			break;
		from += reach.packets;
		if (from >= stream->packets.count)
			break; /* it has read what there is, and failed later */
		probe->stuck += (size_t)reach.stuck;
		if (++probe->bad > BAD_MAX || probe->stuck > STUCK_MAX) {
			take_out_rest(probe->check, stream, from);
			break;
		}
		take_out(probe->check, stream, from++, bad_packet);
	}
	return status;
}

int lttng_probe(const char *folder, struct ctf_check *check, size_t *ret_bad)
{
	struct probe probe = {.folder = folder, .check = check};
	int status = 0;

	for (size_t i = 0; status == 0 && i < check->streams.count; i++)
		status = probe_stream(&probe, i);
	if (status == 0)
		*ret_bad = probe.bad;
	return status;
}
