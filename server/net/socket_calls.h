// SPDX-License-Identifier: Apache-2.0
//
// The calls that gRPC reads, writes and polls sockets by: recvmsg, sendmsg and
// poll, which this library defines. recvmsg counts what it returns of the
// connections that have begun (transit.h).

#ifndef QGEMM_SERVER_NET_SOCKET_CALLS_H_
#define QGEMM_SERVER_NET_SOCKET_CALLS_H_

namespace qgemm {

// Makes recvmsg say, when it is others' turn, that nothing is left to read,
// though there may be, and read less than it might (reading_turns.h); and
// follows what connections bring (client_frames.h). poll begins a round, and
// leaves paused connections out; only threads that poll read. Only where gRPC
// polls by level (GRPC_POLL_STRATEGY poll): an edge would be missed.
void TakeTurnsInReading(bool turns);

// Leaves connections to other threads although this one polls, if they take
// turns: gRPC reads their first bytes where it is handed them.
void ReadNothingOnThisThread();

}  // namespace qgemm

#endif  // QGEMM_SERVER_NET_SOCKET_CALLS_H_
