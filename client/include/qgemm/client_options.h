// SPDX-License-Identifier: Apache-2.0
//
// Connections of a client, its lane, who it and its servers are to each other,
// its policy for calls that fail, and the server's word on when to try again.

#ifndef QGEMM_CLIENT_INCLUDE_QGEMM_CLIENT_OPTIONS_H_
#define QGEMM_CLIENT_INCLUDE_QGEMM_CLIENT_OPTIONS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace qgemm {

// Two kinds of ends are retried, never past the call's deadline: UNAVAILABLE,
// and RESOURCE_EXHAUSTED for which the server named a time to retry. The pause
// before attempt i + 1 is
//   UNAVAILABLE         none if another server is connected that the call has
//                       not tried, else
//                       min(max_backoff, initial_backoff * multiplier^(i - 1))
//                       * (1 +- jitter)
//   RESOURCE_EXHAUSTED  the server's delay * (1 + jitter), at random up to that
struct RetryPolicy {
  int max_attempts = 5;  // 1 = no retries
  absl::Duration initial_backoff = absl::Milliseconds(50);
  absl::Duration max_backoff = absl::Seconds(2);
  double multiplier = 2.0;  // 1 or more
  double jitter = 0.2;      // share of the pause that is random, 0 to 1
  // False: RESOURCE_EXHAUSTED ends the call, whatever the server names.
  bool honour_retry_info = true;
  // A call without a deadline ends rather than wait longer than this because
  // the server says so.
  absl::Duration max_retry_delay = absl::Seconds(30);
};

// The time after which, by the server's word, the request may succeed that
// ended with `status`, as a call of its own or on a stream; nullopt if the
// server named none.
std::optional<absl::Duration> RetryDelay(const absl::Status& status);

// TLS 1.2 or later with certificates in PEM, either as files or as texts. Files
// are read again within seconds of a change, for the connections made from then
// on; a certificate and its key that do not fit each other keep those from
// being made, so replace both at once.
struct TlsOptions {
  // Authorities that a server's certificate must lead to. One of the two is
  // required; /etc/ssl/certs/ca-certificates.crt has those of the system.
  std::string ca_file;
  std::string ca_pem;
  // The certificate that a server is shown, its own authorities behind it, and
  // its key. Both or neither.
  std::string certificate_file;
  std::string key_file;
  std::string certificate_pem;
  std::string key_pem;
  // The name that a server's certificate must have. Empty: the host of the
  // target, a name or an address.
  std::string server_name;
};

// Use of a lane, memory that client and server share on one host
// (docs/lane.md), for Gemm and Run, GemmAsync and RunAsync, and their futures.
enum class LaneUse : uint8_t {
  // If the target is one unix:path, whose server offers a lane to this client;
  // else by gRPC, as all that a lane does not carry.
  kAuto,
  kOff,
  // Connect fails without a lane. Once it has ended, calls end with UNAVAILABLE
  // until there is another; what a lane does not carry goes by gRPC, as does
  // an asynchronous call that is tried again.
  kRequired,
};

// Memory on the server's GPU for operands: an allocation that cuMemCreate made
// on the same host, of the POSIX file descriptor kind. The server takes it only
// if it was told to (--allow_device_operands). Operands that lie in it are read
// and written there. A must have been written, and its stream synchronized,
// before the call; C is there for all streams when the call has ended.
struct DeviceOperands {
  // Address at which this process has mapped the allocation (cuMemMap): all of
  // it, with `bytes` bytes.
  uint8_t* data = nullptr;
  int64_t bytes = 0;
  // That cuMemExportToShareableHandle gave; borrowed for as long as the client.
  int descriptor = -1;
  std::array<uint8_t, 16> device_uuid = {};  // cuDeviceGetUuid
};

struct ClientLaneOptions {
  // Memory for operands in flight and of AllocateOperands; the server holds it
  // locked, and takes it from the client's quota. Calls that find no room go by
  // gRPC.
  int64_t operand_bytes = int64_t{16} << 20;
  // Calls in flight at most, 1 to 4096; more go by gRPC.
  int calls = 128;
  // A call looks for its answer so long before its thread sleeps: up to that of
  // a processor's time a call, for answers without a wake-up. The one thread
  // that ends asynchronous calls looks so long after each answer. Where answers
  // take longer of late they look from shortly before the next one is expected
  // on. Zero: none.
  absl::Duration spin = absl::Microseconds(20);
  // Lent to each lane that the client opens; 16 at most. A lane carries an
  // operand in it if it begins at a multiple of 64 bytes, and several inputs or
  // outputs if they lie one behind the other; of an asynchronous call only with
  // a_released or inputs_released, as the lane cannot copy it. gRPC cannot
  // either: a call whose operands lie otherwise, or whose client has never had
  // a lane, ends with FAILED_PRECONDITION; one that finds no slot, or no room
  // for an operand on the host, with RESOURCE_EXHAUSTED; one between two lanes
  // with UNAVAILABLE. An asynchronous one is not tried again.
  std::vector<DeviceOperands> device_operands;
};

struct ClientOptions {
  // TCP or Unix connections to each server. One connection carries any number
  // of calls; more help when large operands saturate one. Calls to one server
  // take them in turn.
  int channels = 1;
  // Unset: plaintext. Targets of the form unix:path are plaintext either way.
  std::optional<TlsOptions> tls;
  // The token that each call carries as `authorization: Bearer TOKEN`, given as
  // text or as a file; both empty: none. A file is read again, at most once a
  // second, as calls are made; while it cannot be read, or has no token, the
  // last one that it had goes on. Without TLS a token goes to unix: and
  // loopback targets alone: INVALID_ARGUMENT with others.
  std::string token;
  std::string token_file;
  // Threads that finish calls and run callbacks.
  int completion_threads = 1;
  // Largest message, both ways: at least m * k elements of A and m * n of C.
  // The server has its own limit (ServerInfo::max_message_bytes).
  int64_t max_message_bytes = int64_t{64} << 20;
  // Upper bound for Connect's wait: until the server accepts; or, of several
  // servers, one does and the others do or have failed to.
  absl::Duration connect_timeout = absl::Seconds(10);
  RetryPolicy retry;
  LaneUse lane = LaneUse::kAuto;
  ClientLaneOptions lane_options;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_INCLUDE_QGEMM_CLIENT_OPTIONS_H_
