// SPDX-License-Identifier: Apache-2.0
//
// The log lines of gRPC and libprotobuf.

#ifndef QGEMM_RPC_LIBRARY_LOG_H_
#define QGEMM_RPC_LIBRARY_LOG_H_

namespace qgemm {

// From here on both libraries' lines are events of our log, "grpc" and
// "protobuf", escaped, cut and limited as others are. They hold text of
// clients: header values, strings that are no UTF-8. Once, before the libraries
// are used.
void LogLibraries();

}  // namespace qgemm

#endif  // QGEMM_RPC_LIBRARY_LOG_H_
