// SPDX-License-Identifier: Apache-2.0
//
// The client library: holds connections to qgemm servers, uploads weights,
// multiplies with them and runs programs over them. gRPC stays behind this
// header.

#ifndef QGEMM_CLIENT_INCLUDE_QGEMM_CLIENT_H_
#define QGEMM_CLIENT_INCLUDE_QGEMM_CLIENT_H_

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "qgemm/client_options.h"
#include "qgemm/gemm.h"
#include "qgemm/gemm_stream.h"
#include "qgemm/operand_buffer.h"
#include "qgemm/program.h"
#include "qgemm/server_info.h"
#include "qgemm/weights.h"

namespace qgemm {

// Calls one qgemm server, or several that hold the same weights
// (docs/client.md): loads, registrations and unloads go to each of them, every
// other call to the one with the fewest rows in flight. Methods are named as
// the RPCs are. Nothing here throws or ends the process; failures are statuses
// with the server's codes:
//   INVALID_ARGUMENT    the request is wrong; the message says which field
//   NOT_FOUND           unknown weights or program
//   ALREADY_EXISTS, FAILED_PRECONDITION
//                       the name is bound to something else than a condition
//                       of the options or of an Unload says
//   RESOURCE_EXHAUSTED  queue, memory budget or message limit
//   ABORTED, DATA_LOSS  the upload was damaged on its way; load again
//   DEADLINE_EXCEEDED   not answered in time
//   UNIMPLEMENTED       no kernel for this combination
//   UNAUTHENTICATED     the server does not know who calls: no token or
//                       certificate, or one that it does not take
//   PERMISSION_DENIED   the caller may not do this
//   UNAVAILABLE         no server, or it drains; retries were made already
//   CANCELLED           the call was cancelled, or the client destroyed
//
// Thread-safe. Destroying a client cancels the calls in flight and waits
// until their callbacks have run, which end with CANCELLED; destroyed by a
// callback, it does not wait. A callback that runs during destruction must not
// start another call, and the thread that destroys the client must hold no
// lock that a callback takes. The blocking calls return FAILED_PRECONDITION
// inside a callback, where they would wait for themselves.
class Client {
 public:
  // `target` is "host:port", "unix:path" or "dns:///name:port", which is a
  // server at each address that the name has now; several have commas between
  // them. Returns once connected, to one of several at least. Connections are
  // direct: proxy variables of the environment are ignored.
  // Errors: INVALID_ARGUMENT (target, options), NOT_FOUND (a file of the
  // options), UNAVAILABLE with gRPC's reason; those of opening a lane that is
  // required.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(
      const std::string& target, const ClientOptions& options = {});

  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  // Uploads weights: quantized, in memory; dense, for the server to keep or
  // quantize; or produced by a stream. Blocks until the server has them.
  // Weights that the server holds already are bound to the name without being
  // sent again. A load that is cut off is retried, and goes on where the server
  // has come to. Of several servers, those that took the weights have them even
  // if the load fails at others, which the error names; to load again is safe.
  absl::StatusOr<LoadResult> LoadWeights(const EncodedWeights& weights,
                                         const LoadOptions& options = {});
  absl::StatusOr<LoadResult> LoadWeights(const DenseUpload& dense,
                                         const LoadOptions& options = {});
  absl::StatusOr<LoadResult> LoadWeights(const WeightsStream& stream,
                                         const LoadOptions& options = {});

  // Those of the ids (64 hexadecimal digits each) of which a server lacks the
  // weights, or does not show them to the caller. The others count as used.
  absl::StatusOr<std::vector<std::string>> FindMissingWeights(
      absl::Span<const std::string> ids,
      absl::Time deadline = absl::InfiniteFuture());

  // Memory for operands of `bytes` bytes, 1 or more, which the client's lane,
  // if there is one with room, reads and writes where they are. Errors:
  // INVALID_ARGUMENT (bytes); of a client whose lane is required,
  // RESOURCE_EXHAUSTED (no room), UNAVAILABLE (no lane now).
  absl::StatusOr<OperandBuffer> AllocateOperands(int64_t bytes);

  // Multiplies; blocks until the answer is there. A Gemm has no effect on the
  // server, so retries are safe.
  absl::StatusOr<GemmResult> Gemm(const GemmRequest& request);

  // The same without blocking: `callback` runs exactly once, and never inside
  // this call.
  GemmHandle GemmAsync(const GemmRequest& request, GemmCallback callback);
  std::future<absl::StatusOr<GemmResult>> GemmFuture(
      const GemmRequest& request);

  // Opens a stream for many multiplications and runs of programs; streams take
  // the connections in turn, and of several servers the one with the fewest.
  // Asks the server for its limits first. Errors:
  // INVALID_ARGUMENT (options), those of GetServerInfo.
  absl::StatusOr<std::unique_ptr<qgemm::GemmStream>> GemmStream(
      const GemmStreamOptions& options = {});

  // Drops a name, and the weights with their last one; or, given an id, the
  // weights with all their names. True if the weights are gone. If an attempt
  // that was retried had already dropped them, the error is NOT_FOUND; of
  // several servers, only if none had them. With an
  // id as `if_match`, only those weights: FAILED_PRECONDITION if the name is
  // bound to others.
  absl::StatusOr<bool> UnloadWeights(
      absl::string_view name_or_id,
      absl::Time deadline = absl::InfiniteFuture(),
      absl::string_view if_match = "");

  // Drops the memory of weights that stay on the server's disk, under their
  // names: the next request brings them back. What others hold or pin stays in
  // memory. FAILED_PRECONDITION if the server has no disk (--state_dir), or by
  // `if_match`.
  absl::Status UnloadWeightsToDisk(absl::string_view name_or_id,
                                   absl::Time deadline = absl::InfiniteFuture(),
                                   absl::string_view if_match = "");

  // Drops the caller's names that begin with `prefix`, 1 to 128 characters, and
  // weights with their last one. Returns how many went; of several servers, at
  // the one where most did.
  absl::StatusOr<int64_t> UnloadWeightsWithPrefix(
      absl::string_view prefix, absl::Time deadline = absl::InfiniteFuture());

  // Keeps weights, names or ids, in the server's memory until they are unpinned
  // or the caller unloads them, or the server ends. All or none, 400 at most.
  absl::Status PinWeights(absl::Span<const std::string> weights,
                          absl::Time deadline = absl::InfiniteFuture());
  absl::Status UnpinWeights(absl::Span<const std::string> weights,
                            absl::Time deadline = absl::InfiniteFuture());

  // Counts as a use of weights, and brings those that are on the server's disk
  // alone, without waiting for them; they stay in memory for `lease`, an hour
  // at most, if that is not 0. Returns how many are in memory by now; of
  // several servers, at the one where fewest are. All or none, 400 at most.
  absl::StatusOr<int64_t> TouchWeights(
      absl::Span<const std::string> weights,
      absl::Duration lease = absl::ZeroDuration(),
      absl::Time deadline = absl::InfiniteFuture());

  // True if every server says that it serves (grpc.health.v1).
  absl::StatusOr<bool> IsServing(absl::Time deadline = absl::InfiniteFuture());

  // All layers, sorted by first name, then id. Takes as many calls as the
  // server has pages; a layer that is loaded or bound to another first name
  // meanwhile may be missing or come twice.
  absl::StatusOr<std::vector<WeightsInfo>> ListWeights(
      absl::Time deadline = absl::InfiniteFuture());

  // The same of those of which a name begins with `prefix`.
  absl::StatusOr<std::vector<WeightsInfo>> ListWeightsWithPrefix(
      absl::string_view prefix, absl::Time deadline = absl::InfiniteFuture());

  absl::StatusOr<WeightsInfo> GetWeights(
      absl::string_view name_or_id,
      absl::Time deadline = absl::InfiniteFuture());

  // Registers a program (docs/programs.md), by the RPC LoadProgram: a Run then
  // has it by name or id. Free if the server has it already, and it keeps its
  // weights, whatever becomes of their names. Errors of the check name the op:
  // INVALID_ARGUMENT, NOT_FOUND (weights), UNIMPLEMENTED (a later revision; a
  // mode that the weights lack).
  absl::StatusOr<RegisterResult> RegisterProgram(
      const Program& program, const RegisterOptions& options = {});
  // The same of a text, which the server alone checks, whatever options.check
  // says. INVALID_ARGUMENT with line and column if it does not parse.
  absl::StatusOr<RegisterResult> RegisterProgram(
      const ProgramText& program, const RegisterOptions& options = {});

  // Runs a program; blocks until the answer is there. A Run has no effect on
  // the server, so retries are safe.
  absl::StatusOr<RunResult> Run(const RunRequest& request);

  // The same without blocking: `callback` runs exactly once, and never inside
  // this call.
  CallHandle RunAsync(const RunRequest& request, RunCallback callback);
  std::future<absl::StatusOr<RunResult>> RunFuture(const RunRequest& request);

  // Drops a name, and the program with its last one; or, given an id, the
  // program with all its names. True if the program is gone. Retries and
  // `if_match` are as UnloadWeights has them.
  absl::StatusOr<bool> UnloadProgram(
      absl::string_view name_or_id,
      absl::Time deadline = absl::InfiniteFuture(),
      absl::string_view if_match = "");

  // All programs without their texts, as ListWeights lists layers.
  absl::StatusOr<std::vector<ProgramInfo>> ListPrograms(
      absl::Time deadline = absl::InfiniteFuture());

  absl::StatusOr<ProgramInfo> GetProgram(
      absl::string_view name_or_id,
      absl::Time deadline = absl::InfiniteFuture());

  absl::StatusOr<ServerInfo> GetServerInfo(
      absl::Time deadline = absl::InfiniteFuture());

  // The servers in the order of the target, as this client sees them now; makes
  // no call.
  std::vector<ServerConnection> Connections() const;

 private:
  class Impl;
  explicit Client(std::shared_ptr<Impl> impl);

  const std::shared_ptr<Impl> impl_;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_INCLUDE_QGEMM_CLIENT_H_
