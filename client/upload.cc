// SPDX-License-Identifier: Apache-2.0
//
// Attempt is one call; the loop over attempts is Upload.

#include "client/upload.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/crc32c.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "client/weights_stream.h"
#include "client/weights_wire.h"
#include "qgemm/v1/qgemm.grpc.pb.h"
#include "rpc/grpc_status.h"
#include "rpc/message_limits.h"

namespace qgemm {
namespace {

// One attempt. Its methods run on the caller's thread.
class Attempt {
 public:
  Attempt(CallEngine* engine, size_t server, const WeightsStream& stream,
          const LoadOptions& options)
      : engine_(engine), server_(server), stream_(stream), options_(options) {
    SetContextDeadline(options.deadline, &context_);
    engine->Authorize(&context_);
  }

  absl::StatusOr<LoadResult> Run(const v1::WeightsHeader& header) {
    if (!engine_->Enter(&context_)) {
      return absl::CancelledError("the client was destroyed");
    }
    ChannelPool::Request where;
    where.server = server_;
    const ChannelPool::Place place = engine_->pool().Enter(where);
    absl::StatusOr<LoadResult> result = Send(header, place.channel);
    engine_->pool().Leave(place, result.status());
    engine_->Leave(&context_);
    return result;
  }

  // The server's word on when the same load may succeed, after Run.
  std::optional<absl::Duration> retry_delay() const { return retry_delay_; }

 private:
  absl::StatusOr<LoadResult> Send(
      const v1::WeightsHeader& header,
      const std::shared_ptr<grpc::Channel>& channel) {
    v1::LoadWeightsResponse response;
    const auto stub = v1::Qgemm::NewStub(channel);
    const auto writer = stub->LoadWeights(&context_, &response);
    v1::LoadWeightsRequest request;
    *request.mutable_header() = header;
    // A failed write means that the answer is there, or an error; Finish
    // returns which.
    if (writer->Write(request)) {
      const absl::Status sent = SendChunks(writer.get());
      if (!sent.ok()) {
        context_.TryCancel();
        writer->Finish();
        return sent;
      }
      writer->WritesDone();
    }
    const grpc::Status finished = writer->Finish();
    retry_delay_ = RetryDelayOf(finished);
    RETURN_IF_ERROR(ToAbslStatus(finished));
    LoadResult result;
    result.weights = FromWire(response.weights());
    result.deduplicated = response.deduplicated();
    result.flushed_blocks = response.flushed_blocks();
    return result;
  }

  // Not OK only if the stream fails.
  absl::Status SendChunks(grpc::ClientWriter<v1::LoadWeightsRequest>* writer) {
    LoadProgress progress;
    progress.total_bytes = TotalBytes(stream_.spec);
    if (options_.progress != nullptr) options_.progress(progress);
    v1::LoadWeightsRequest request;
    v1::WeightsChunk* const chunk = request.mutable_chunk();
    for (const SectionSize& section : SectionsOf(stream_.spec)) {
      for (int64_t offset = 0; offset < section.bytes;) {
        const int64_t bytes =
            std::min(options_.chunk_bytes, section.bytes - offset);
        RETURN_IF_ERROR(FillChunk(bytes, chunk));
        chunk->set_section(ToWire(section.section));
        chunk->set_offset(offset);
        if (!writer->Write(request)) return absl::OkStatus();
        offset += bytes;
        progress.sent_bytes += bytes;
        if (options_.progress != nullptr) options_.progress(progress);
      }
    }
    return absl::OkStatus();
  }

  absl::Status FillChunk(int64_t bytes, v1::WeightsChunk* chunk) {
    std::string* const payload = chunk->mutable_bytes();
    payload->resize(bytes);
    RETURN_IF_ERROR(ReadFully(
        stream_,
        absl::MakeSpan(reinterpret_cast<uint8_t*>(&(*payload)[0]), bytes)));
    chunk->set_crc32c(Crc32c(*payload));
    return absl::OkStatus();
  }

  CallEngine* const engine_;
  const size_t server_;
  const WeightsStream& stream_;
  const LoadOptions& options_;
  grpc::ClientContext context_;
  std::optional<absl::Duration> retry_delay_;
};

}  // namespace

absl::Status CheckUpload(const WeightsStream& stream,
                         const LoadOptions& options,
                         int64_t max_message_bytes) {
  if (stream.read == nullptr) {
    return absl::InvalidArgumentError(
        "WeightsStream::read is empty; give a function that produces bytes");
  }
  const int64_t max_chunk_bytes = max_message_bytes - kMessageOverheadBytes;
  if (options.chunk_bytes < 1 || options.chunk_bytes > max_chunk_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("LoadOptions::chunk_bytes is ", options.chunk_bytes,
                     "; with this client's max_message_bytes it must be 1 to ",
                     max_chunk_bytes));
  }
  return CheckSpec(stream.spec);
}

absl::StatusOr<LoadResult> Upload(CallEngine* engine, size_t server,
                                  const WeightsStream& stream,
                                  const std::optional<Sha256Digest>& id,
                                  const LoadOptions& options) {
  v1::WeightsHeader header = ToWire(stream.spec);
  header.set_name(options.name);
  header.set_create_only(options.create_only);
  header.set_if_match(options.if_match);
  if (id.has_value()) header.set_sha256(id->data(), id->size());
  for (EndedAttempt ended; true; ++ended.number) {
    Attempt attempt(engine, server, stream, options);
    absl::StatusOr<LoadResult> result = attempt.Run(header);
    if (result.ok() || stream.rewind == nullptr) return result;
    ended.status = result.status();
    ended.retry_delay = attempt.retry_delay();
    ended.deadline = options.deadline;
    const std::optional<absl::Duration> pause = engine->PauseAfter(ended);
    if (!pause.has_value()) return result;
    if (!engine->Sleep(*pause)) {
      return absl::CancelledError("the client was destroyed");
    }
    RETURN_IF_ERROR(stream.rewind());
  }
}

}  // namespace qgemm
