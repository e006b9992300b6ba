/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of NCCL (up to 2.30) that libbelay-nccl hands on as they are: F(name). A program that
 * has libbelay-nccl loaded in NCCL's place, by dlopen(), looks for them there. Under LD_PRELOAD a
 * function that is not here is NCCL's own anyway.
 */
#ifndef BELAY_RUNTIME_NCCL_FORWARD_LIST_H
#define BELAY_RUNTIME_NCCL_FORWARD_LIST_H

#include "runtime/nccl/real_nccl.h"

#define FORWARDED_FUNCTIONS(F)                                                                     \
	F(ncclCommCount)                                                                           \
	F(ncclCommCuDevice)                                                                        \
	F(ncclCommDeregister)                                                                      \
	F(ncclCommGetUniqueId)                                                                     \
	F(ncclCommGrow)                                                                            \
	F(ncclCommMemStats)                                                                        \
	F(ncclCommRegister)                                                                        \
	F(ncclCommResume)                                                                          \
	F(ncclCommSuspend)                                                                         \
	F(ncclCommUserRank)                                                                        \
	F(ncclCommWindowDeregister)                                                                \
	F(ncclCommWindowRegister)                                                                  \
	F(ncclDevCommCreate)                                                                       \
	F(ncclDevCommDestroy)                                                                      \
	F(ncclGetUniqueId)                                                                         \
	F(ncclGetVersion)                                                                          \
	F(ncclMemAlloc)                                                                            \
	F(ncclMemFree)                                                                             \
	F(ncclParamBind)                                                                           \
	F(ncclParamDumpAll)                                                                        \
	F(ncclParamGet)                                                                            \
	F(ncclParamGetAllParameterKeys)                                                            \
	F(ncclParamGetI16)                                                                         \
	F(ncclParamGetI32)                                                                         \
	F(ncclParamGetI64)                                                                         \
	F(ncclParamGetI8)                                                                          \
	F(ncclParamGetParameter)                                                                   \
	F(ncclParamGetStr)                                                                         \
	F(ncclParamGetU16)                                                                         \
	F(ncclParamGetU32)                                                                         \
	F(ncclParamGetU64)                                                                         \
	F(ncclParamGetU8)                                                                          \
	F(ncclPutSignal)                                                                           \
	F(ncclRedOpCreatePreMulSum)                                                                \
	F(ncclRedOpDestroy)                                                                        \
	F(ncclResetDebugInit)                                                                      \
	F(ncclSignal)                                                                              \
	F(ncclWaitSignal)                                                                          \
	F(ncclWinGetUserPtr)                                                                       \
	FORWARDED_BEFORE_18(F)                                                                     \
	FORWARDED_BEFORE_22(F)                                                                     \
	FORWARDED_BEFORE_23(F)                                                                     \
	FORWARDED_BEFORE_27(F)                                                                     \
	FORWARDED_BEFORE_28(F)

#endif /* BELAY_RUNTIME_NCCL_FORWARD_LIST_H */
