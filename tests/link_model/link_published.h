/* SPDX-License-Identifier: Apache-2.0 */
/* Figures that others have published or that were measured, floors that were calculated, and the
 * software that the model gives each of them. */
#ifndef BELAY_TESTS_LINK_PUBLISHED_H
#define BELAY_TESTS_LINK_PUBLISHED_H

#include "tests/link_model/link_schedules.h"

enum link_role {
	LINK_FITTED,  /* a constant was chosen by this figure */
	LINK_CHECKED, /* nothing was */
	LINK_BEYOND   /* no model of links could show it: the row's note says why */
};

struct link_published {
	const char *setting;
	const struct link_machine *machine;
	int nranks;
	enum link_schedule schedule;
	const struct link_software *software;
	double bytes, us;
	enum link_role role;
	const char *note;
};

/* Each ends with a row without a setting. */
extern const struct link_published link_published[];   /* elsewhere */
extern const struct link_published link_own_kernels[]; /* belay's own, two H200 */
extern const struct link_published link_floors[];      /* calculated */

/* belay's kernels. */
extern const struct link_software link_belay_packets, link_belay_wire, link_belay_pull;

#define LINK_TOLERANCE 0.20

const char *link_role_name(enum link_role role);
double link_simulated_us(const struct link_published *row);

#endif /* BELAY_TESTS_LINK_PUBLISHED_H */
