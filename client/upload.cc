// SPDX-License-Identifier: Apache-2.0
//
// Attempt is one call; the loop over attempts is Load.

#include "client/upload.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/crc32c.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "client/chunk_relay.h"
#include "client/weights_stream.h"
#include "client/weights_wire.h"
#include "qgemm/v1/qgemm.grpc.pb.h"
#include "rpc/grpc_status.h"
#include "rpc/message_limits.h"
#include "rpc/payload_message.h"

namespace qgemm {
namespace {

// Servers that a chunk is sent to at once.
constexpr size_t kMaxAtOnce = 16;

// Time for which a server that takes no bytes may keep the others waiting. A
// server gives an upload up after 30 s without progress (--idle_timeout).
constexpr absl::Duration kPatience = absl::Seconds(10);

// One attempt at one server.
class Attempt {
 public:
  Attempt(CallEngine* engine, size_t server, absl::Time deadline)
      : engine_(engine), server_(server), deadline_(deadline) {
    SetContextDeadline(deadline, &context_);
    engine->Authorize(&context_);
  }

  // Sends what the relay has for the taker, which leaves it then. Once.
  absl::StatusOr<LoadResult> Run(const v1::WeightsHeader& header, bool resumes,
                                 ChunkRelay* relay, size_t taker) {
    if (resumes) AskForReceived(header);
    if (!engine_->Enter(&context_)) {
      relay->Leave(taker);
      return absl::CancelledError("the client was destroyed");
    }
    ChannelPool::Request where;
    where.server = server_;
    const ChannelPool::Place place = engine_->pool().Enter(where);
    absl::StatusOr<LoadResult> result =
        Send(header, place.channel, relay, taker);
    relay->Leave(taker);
    engine_->pool().Leave(place, result.status());
    engine_->Leave(&context_);
    return result;
  }

  // May run on another thread than Run, before it has ended.
  void Cancel() { context_.TryCancel(); }

  // The server's word on when the same load may succeed, after Run.
  std::optional<absl::Duration> retry_delay() const { return retry_delay_; }

  // Bytes that it has not sent, as the server had them.
  int64_t resumed_bytes() const { return resume_bytes_.value_or(0); }

 private:
  absl::StatusOr<LoadResult> Send(const v1::WeightsHeader& header,
                                  const std::shared_ptr<grpc::Channel>& channel,
                                  ChunkRelay* relay, size_t taker) {
    v1::LoadWeightsResponse response;
    const auto stub = v1::Qgemm::NewStub(channel);
    const auto writer = stub->LoadWeights(&context_, &response);
    v1::LoadWeightsRequest request;
    *request.mutable_header() = header;
    if (resume_bytes_.has_value()) {
      request.mutable_header()->set_resume_bytes(*resume_bytes_);
    }
    // A failed write means that the answer is there, or an error; Finish
    // returns which.
    bool open = writer->Write(request);
    while (open) {
      const ChunkRelay::Chunk chunk = relay->Take(taker);
      if (chunk == nullptr) break;
      open = WriteNews(*chunk, writer.get());
    }
    if (open && relay->IsWhole(taker)) {
      writer->WritesDone();
    } else if (open) {
      context_.TryCancel();
    }
    const grpc::Status finished = writer->Finish();
    retry_delay_ = RetryDelayOf(finished);
    RETURN_IF_ERROR(ToAbslStatus(finished));
    LoadResult result;
    result.weights = FromWire(response.weights());
    result.deduplicated = response.deduplicated();
    result.flushed_blocks = response.flushed_blocks();
    if (!result.deduplicated) result.resumed_bytes = resumed_bytes();
    return result;
  }

  // Asks the server for what it has of an upload that was cut off. Whatever
  // goes wrong with that goes wrong with the upload too.
  void AskForReceived(const v1::WeightsHeader& header) {
    v1::QueryUploadRequest request;
    request.set_id(absl::BytesToHexString(header.sha256()));
    UnaryCall call;
    call.method = "/qgemm.v1.Qgemm/QueryUpload";
    call.request = WriteMessage(request);
    call.where.server = server_;
    call.deadline = std::min(deadline_, absl::Now() + kPatience);
    std::promise<CallOutcome> promise;
    call.done = [&promise](CallOutcome outcome) {
      promise.set_value(std::move(outcome));
    };
    engine_->Start(std::move(call));
    CallOutcome outcome = promise.get_future().get();
    v1::QueryUploadResponse response;
    const bool is_answered =
        outcome.status.ok() &&
        grpc::SerializationTraits<v1::QueryUploadResponse>::Deserialize(
            &outcome.response, &response)
            .ok();
    resume_bytes_ = is_answered ? response.committed_bytes() : 0;
  }

  // Writes the part of a chunk that the server does not have.
  bool WriteNews(const v1::LoadWeightsRequest& chunk,
                 grpc::ClientWriter<v1::LoadWeightsRequest>* writer) {
    const auto size = static_cast<int64_t>(chunk.chunk().bytes().size());
    const int64_t known = resumed_bytes() - taken_bytes_;
    taken_bytes_ += size;
    if (known >= size) return true;
    if (known <= 0) return writer->Write(chunk);
    v1::LoadWeightsRequest rest;
    v1::WeightsChunk* const news = rest.mutable_chunk();
    news->set_section(chunk.chunk().section());
    news->set_offset(chunk.chunk().offset() + known);
    news->set_bytes(chunk.chunk().bytes().substr(known));
    news->set_crc32c(Crc32c(news->bytes()));
    return writer->Write(rest);
  }

  CallEngine* const engine_;
  const size_t server_;
  const absl::Time deadline_;
  grpc::ClientContext context_;
  std::optional<int64_t> resume_bytes_;
  int64_t taken_bytes_ = 0;  // from the relay
  std::optional<absl::Duration> retry_delay_;
};

// A load over all its attempts. Used by one thread.
class Load {
 public:
  Load(CallEngine* engine, size_t servers, const WeightsStream& stream,
       const std::optional<Sha256Digest>& id, const LoadOptions& options)
      : engine_(engine),
        stream_(stream),
        options_(options),
        header_(ToWire(stream.spec)),
        destinations_(servers) {
    for (Destination& each : destinations_) {
      each.resumes = options.resume && id.has_value();
    }
    header_.set_name(options.name);
    header_.set_create_only(options.create_only);
    header_.set_if_match(options.if_match);
    if (id.has_value()) header_.set_sha256(id->data(), id->size());
  }

  // Once.
  absl::StatusOr<std::vector<absl::StatusOr<LoadResult>>> Run() {
    std::vector<size_t> servers = NextServers();
    for (bool again = false; !servers.empty(); again = true) {
      const absl::Time due = destinations_[servers.front()].due;
      if (due > absl::Now() && !engine_->Sleep(due - absl::Now())) {
        return absl::CancelledError("the client was destroyed");
      }
      if (again) RETURN_IF_ERROR(stream_.rewind());
      RETURN_IF_ERROR(Pass(servers));
      servers = NextServers();
    }
    std::vector<absl::StatusOr<LoadResult>> results;
    for (Destination& destination : destinations_) {
      results.push_back(*std::move(destination.result));
    }
    return results;
  }

 private:
  struct Destination {
    EndedAttempt ended;  // number: of the attempt to come
    absl::Time due = absl::InfinitePast();
    bool resumes = false;
    bool was_aborted = false;
    std::optional<absl::StatusOr<LoadResult>> result;
  };

  // Those that are due first, and what else is due by then; none if all have
  // their results.
  std::vector<size_t> NextServers() const {
    absl::Time first = absl::InfiniteFuture();
    for (const Destination& each : destinations_) {
      if (!each.result.has_value()) first = std::min(first, each.due);
    }
    const absl::Time now = std::max(first, absl::Now());
    std::vector<size_t> servers;
    for (size_t i = 0; i < destinations_.size(); ++i) {
      const Destination& each = destinations_[i];
      if (each.result.has_value() || each.due > now) continue;
      if (servers.size() < kMaxAtOnce) servers.push_back(i);
    }
    return servers;
  }

  // Reads the stream once and sends it to the servers. Not OK only if the
  // stream fails.
  absl::Status Pass(const std::vector<size_t>& servers) {
    std::vector<std::unique_ptr<Attempt>> attempts;
    attempts.reserve(servers.size());
    for (const size_t server : servers) {
      attempts.push_back(
          std::make_unique<Attempt>(engine_, server, options_.deadline));
    }
    ChunkRelay relay(servers.size(), kPatience,
                     [&](size_t taker) { attempts[taker]->Cancel(); });
    std::vector<absl::StatusOr<LoadResult>> results(servers.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < servers.size(); ++i) {
      threads.emplace_back([&, i] {
        results[i] = attempts[i]->Run(
            header_, destinations_[servers[i]].resumes, &relay, i);
      });
    }
    const absl::Status read = PutChunks(&relay);
    relay.Close(read.ok() ? ChunkRelay::End::kWhole : ChunkRelay::End::kBroken);
    for (std::thread& thread : threads) thread.join();
    RETURN_IF_ERROR(read);
    for (size_t i = 0; i < servers.size(); ++i) {
      if (relay.IsBehind(i)) {  // in the next pass, where this one came to
        destinations_[servers[i]].resumes = !header_.sha256().empty();
        continue;
      }
      End(servers[i], std::move(results[i]), attempts[i]->retry_delay());
    }
    return absl::OkStatus();
  }

  // Keeps the result, or decides on another attempt, which goes on where this
  // one came to. If the server lost that or took it amiss, or another upload of
  // the same layer took over, one that does not follows at once.
  void End(size_t server, absl::StatusOr<LoadResult> result,
           std::optional<absl::Duration> retry_delay) {
    Destination& destination = destinations_[server];
    if (!result.ok() && stream_.rewind != nullptr) {
      EndedAttempt& ended = destination.ended;
      const bool is_aborted =
          absl::IsAborted(result.status()) ||
          (destination.resumes && absl::IsDataLoss(result.status()));
      destination.resumes = !is_aborted && !header_.sha256().empty();
      if (is_aborted && !std::exchange(destination.was_aborted, true)) return;
      ended.status = result.status();
      ended.retry_delay = retry_delay;
      ended.deadline = options_.deadline;
      const auto pause = engine_->PauseAfter(ended);
      ++ended.number;
      destination.due = absl::Now() + pause.value_or(absl::ZeroDuration());
      if (pause.has_value()) return;
    }
    destination.result = std::move(result);
  }

  // Not OK only if the stream fails.
  absl::Status PutChunks(ChunkRelay* relay) {
    LoadProgress progress;
    progress.total_bytes = TotalBytes(stream_.spec);
    if (options_.progress != nullptr) options_.progress(progress);
    for (const SectionSize& section : SectionsOf(stream_.spec)) {
      for (int64_t offset = 0; offset < section.bytes;) {
        const int64_t bytes =
            std::min(options_.chunk_bytes, section.bytes - offset);
        const auto request = std::make_shared<v1::LoadWeightsRequest>();
        RETURN_IF_ERROR(FillChunk(bytes, request->mutable_chunk()));
        request->mutable_chunk()->set_section(ToWire(section.section));
        request->mutable_chunk()->set_offset(offset);
        if (!relay->Put(request)) return absl::OkStatus();
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
  const WeightsStream& stream_;
  const LoadOptions& options_;
  v1::WeightsHeader header_;
  std::vector<Destination> destinations_;  // by server
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

absl::StatusOr<std::vector<absl::StatusOr<LoadResult>>> Upload(
    CallEngine* engine, size_t servers, const WeightsStream& stream,
    const std::optional<Sha256Digest>& id, const LoadOptions& options) {
  return Load(engine, servers, stream, id, options).Run();
}

}  // namespace qgemm
