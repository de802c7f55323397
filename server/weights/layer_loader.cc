// SPDX-License-Identifier: Apache-2.0
//
// A job is a layer that is being brought or is to be; who asks for it meanwhile
// joins it.

#include "server/weights/layer_loader.h"

#include <algorithm>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "kernels/formats/weights_decoder.h"
#include "kernels/matrix/layer_images.h"
#include "server/storage/image_files.h"
#include "server/weights/owners.h"

namespace qgemm {
namespace {

absl::Status Stopped() {
  return absl::UnavailableError(
      "the server is draining and the layer is on its disk still; retry on "
      "another replica");
}

}  // namespace

LayerLoader::LayerLoader(Backend* backend, WeightStore* store,
                         const LayerLoaderOptions& options)
    : backend_(backend), store_(store), options_(options) {}

LayerLoader::~LayerLoader() { Stop(); }

void LayerLoader::Start() {
  {
    MutexLock lock(&mutex_);
    for (const std::string& name : options_.first_names) {
      const auto layer = store_->Find(kAnybody, name);
      if (!layer.ok() || (*layer)->resident != nullptr) continue;
      if (loading_first_.insert((*layer)->id).second) {
        background_.push_back((*layer)->id);
      }
    }
    for (const auto& layer : store_->layers()) {
      if (layer->resident != nullptr) continue;
      loading_.insert(layer->id);
      jobs_.try_emplace(layer->id);
      if (loading_first_.count(layer->id) == 0) {
        background_.push_back(layer->id);
      }
    }
  }
  for (int i = 0; i < std::max(options_.threads, 1); ++i) {
    threads_.emplace_back([this] { Run(); });
  }
}

LayerLoader::Ticket LayerLoader::Fetch(const std::string& id, Loaded loaded) {
  Ticket ticket = 0;
  Loaded refused;
  {
    MutexLock lock(&mutex_);
    ticket = next_ticket_++;
    if (stopping_) {
      refused = std::move(loaded);
    } else {
      Job& job = jobs_[id];
      job.waiting.emplace(ticket, std::move(loaded));
      if (job.waiting.size() == 1 && !job.is_running) Queue(id);
    }
  }
  if (refused != nullptr) refused(Stopped());
  store_->RingRoom();
  return ticket;
}

void LayerLoader::Leave(const std::string& id, Ticket ticket) {
  Loaded ended;  // destroyed after the lock
  {
    MutexLock lock(&mutex_);
    const auto job = jobs_.find(id);
    if (job == jobs_.end()) return;
    const auto waiting = job->second.waiting.find(ticket);
    if (waiting == job->second.waiting.end()) return;
    ended = std::move(waiting->second);
    job->second.waiting.erase(waiting);
  }
  store_->RingRoom();
}

LayerLoader::Result LayerLoader::Await(const std::string& id,
                                       absl::Duration at_most) {
  const auto promise = std::make_shared<std::promise<Result>>();
  std::future<Result> future = promise->get_future();
  const Ticket ticket = Fetch(
      id, [promise](Result result) { promise->set_value(std::move(result)); });
  // Longer waits would overflow the clock's nanoseconds.
  const absl::Duration bounded = std::min(at_most, absl::Hours(24 * 365));
  if (future.wait_for(absl::ToChronoNanoseconds(bounded)) ==
      std::future_status::ready) {
    return future.get();
  }
  Leave(id, ticket);
  return absl::ResourceExhaustedError(
      absl::StrCat("layer ", id, " has not come from the disk within ",
                   absl::FormatDuration(at_most),
                   "; there may be no room in memory yet: try again later"));
}

void LayerLoader::Bring(const std::string& id) {
  MutexLock lock(&mutex_);
  if (stopping_) return;
  Job& job = jobs_[id];
  if (std::exchange(job.is_asked_for, true) || job.is_running) return;
  Queue(id);
}

void LayerLoader::Queue(const std::string& id) {
  urgent_.push_back(id);
  changed_.Signal();
}

RoomPatience LayerLoader::PatienceFor(const std::string& id) {
  MutexLock lock(&mutex_);
  Job& job = jobs_.find(id)->second;
  job.patience = stopping_ || !job.is_urgent() ? RoomPatience::kNone
                 : job.waiting.empty()         ? RoomPatience::kForUsers
                                               : RoomPatience::kForTime;
  return job.patience;
}

void LayerLoader::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
  store_->RingRoom();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  std::map<std::string, Job> left;
  {
    MutexLock lock(&mutex_);
    left.swap(jobs_);
  }
  for (auto& [unused, job] : left) {
    for (auto& [ticket, loaded] : job.waiting) loaded(Stopped());
  }
}

LoadingLayers LayerLoader::loading() const {
  MutexLock lock(&mutex_);
  return {static_cast<int64_t>(loading_.size()),
          static_cast<int64_t>(loading_first_.size())};
}

void LayerLoader::Run() {
  while (true) {
    const std::optional<Picked> picked = AwaitJob();
    if (!picked.has_value()) return;
    EndJob(*picked, Load(*picked));
  }
}

std::optional<LayerLoader::Picked> LayerLoader::AwaitJob() {
  MutexLock lock(&mutex_);
  while (!stopping_) {
    if (auto picked = TakeJob(); picked.has_value()) return picked;
    changed_.Wait(&mutex_);
  }
  return std::nullopt;
}

std::optional<LayerLoader::Picked> LayerLoader::TakeJob() {
  for (auto* const queue : {&urgent_, &background_}) {
    while (!queue->empty()) {
      std::string id = std::move(queue->front());
      queue->pop_front();
      // A layer that was in two queues leaves a place over.
      const auto job = jobs_.find(id);
      if (job == jobs_.end() || job->second.is_running) continue;
      if (!job->second.is_urgent() && loading_.count(id) == 0) {
        jobs_.erase(job);  // all that waited have left
        continue;
      }
      job->second.is_running = true;
      return Picked{std::move(id), job->second.is_urgent()};
    }
  }
  return std::nullopt;
}

bool LayerLoader::IsQueuedAgain(const Picked& picked,
                                const absl::Status& status) {
  Job& job = jobs_.find(picked.id)->second;
  if (stopping_) return false;
  // Somebody has asked for it meanwhile: others leave memory for it then.
  const bool waits_longer =
      picked.is_urgent
          ? job.patience == RoomPatience::kForUsers && !job.waiting.empty()
          : job.is_urgent();
  if (absl::IsResourceExhausted(status) ? !waits_longer
                                        : !absl::IsCancelled(status)) {
    return false;
  }
  if (job.is_urgent()) {
    Queue(picked.id);
  } else if (loading_.count(picked.id) != 0) {
    background_.push_back(picked.id);
    changed_.Signal();
  } else {
    return false;
  }
  job.is_running = false;
  return true;
}

void LayerLoader::EndJob(const Picked& picked, const Result& result) {
  std::map<Ticket, Loaded> waiting;
  {
    MutexLock lock(&mutex_);
    if (IsQueuedAgain(picked, result.status())) return;
    const auto job = jobs_.find(picked.id);
    waiting = std::move(job->second.waiting);
    jobs_.erase(job);
    loading_.erase(picked.id);
    loading_first_.erase(picked.id);
  }
  for (auto& [unused, loaded] : waiting) {
    if (result.ok()) {
      loaded(result);
    } else if (absl::IsCancelled(result.status())) {
      loaded(Stopped());
    } else {
      // An error of its own, whose end another thread does not share.
      loaded(absl::Status(result.status().code(), result.status().message()));
    }
  }
}

LayerLoader::Result LayerLoader::Load(const Picked& picked) {
  const std::string& id = picked.id;
  ASSIGN_OR_RETURN(const auto held, store_->Find(kAnybody, id));
  if (held->resident != nullptr) return held;
  const absl::Time start = absl::Now();
  Result loaded = LoadFrom(held, picked.is_urgent);
  const absl::Status& status = loaded.status();
  if (absl::IsCancelled(status)) return loaded;
  if (store_->metrics() != nullptr) {
    store_->metrics()->LayerBrought(status.code(), absl::Now() - start);
  }
  if (absl::IsDataLoss(status)) {
    Forget(id, status);
  } else if (!status.ok() && !stopping_) {
    EVENT(WARNING, "layer_not_loaded")
        .With("id", id)
        .With("error", status.message());
  }
  return loaded;
}

LayerLoader::Result LayerLoader::LoadFrom(
    const std::shared_ptr<const Weights>& held, bool is_urgent) {
  ASSIGN_OR_RETURN(WeightStore::Room room, RoomFor(*held, is_urgent));
  std::shared_ptr<const Weights> loaded;
  if (room.resident != nullptr) {
    loaded = store_->Revive(held, std::move(room.resident));
  } else {
    ASSIGN_OR_RETURN(auto resident, Build(*held));
    RETURN_IF_ERROR(WeightStore::Resize(
        kAnybody, resident->resident_bytes() + kLayerRecordBytes,
        &room.reservation));
    loaded = store_->MakeResident(held, std::move(resident),
                                  std::move(room.reservation));
  }
  if (loaded == nullptr) return UnknownRecord("weights", held->id);
  if (loaded->resident == nullptr) {
    return absl::CancelledError("another record has come, and left memory");
  }
  return loaded;
}

absl::StatusOr<WeightStore::Room> LayerLoader::RoomFor(const Weights& held,
                                                       bool is_urgent) {
  const int64_t bytes = backend_->EstimateResidentBytes(ShapeOf(held.spec)) +
                        kLayerRecordBytes + DecoderBytes(held.spec);
  if (is_urgent) {
    return store_->AwaitRoom(held, bytes,
                             [this, &held] { return PatienceFor(held.id); });
  }
  ASSIGN_OR_RETURN(ByteReservation reservation, store_->ReserveFree(bytes));
  return WeightStore::Room{nullptr, std::move(reservation)};
}

LayerLoader::Resident LayerLoader::Build(const Weights& held) {
  ImageFiles* const images = store_->state()->images();
  if (!images->Has(held.id)) return BuildFromUpload(held);
  Resident resident = BuildFromImage(held);
  const absl::Status& status = resident.status();
  if (store_->metrics() != nullptr) store_->metrics()->ImageRead(status.code());
  // Want of memory, or the end, would meet the upload too.
  if (status.ok() || absl::IsResourceExhausted(status) ||
      absl::IsUnavailable(status)) {
    return resident;
  }
  images->Remove(held.id);
  EVENT(WARNING, "image_dropped")
      .With("id", held.id)
      .With("error", status.message());
  return BuildFromUpload(held);
}

LayerLoader::Resident LayerLoader::BuildFromImage(const Weights& held) {
  ASSIGN_OR_RETURN(const ImageFiles::Reader reader,
                   store_->state()->images()->Read(held.id));
  ASSIGN_OR_RETURN(const auto sink,
                   backend_->images()->NewSink(reader.image()));
  int64_t offset = 0;
  while (true) {
    if (stopping_) return Stopped();
    ASSIGN_OR_RETURN(const absl::Span<uint8_t> bytes, sink->Next());
    if (bytes.empty()) break;
    RETURN_IF_ERROR(reader.ReadAt(offset, bytes));
    offset += static_cast<int64_t>(bytes.size());
  }
  ASSIGN_OR_RETURN(auto resident, sink->Finish());
  if (resident->n() == held.spec.n && resident->k() == held.spec.k) {
    return resident;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "an image of a layer of ", resident->n(), " x ", resident->k()));
}

LayerLoader::Resident LayerLoader::BuildFromUpload(const Weights& held) {
  ASSIGN_OR_RETURN(const WeightsFileReader reader,
                   store_->state()->Read(held.id));
  ASSIGN_OR_RETURN(const auto builder, backend_->NewBuilder());
  const auto decoder = NewWeightsDecoder(held.spec, builder.get());
  RETURN_IF_ERROR(reader.Read(
      [&](Section section, absl::Span<const uint8_t> bytes) -> absl::Status {
        if (stopping_) return Stopped();
        return decoder->Append(section, bytes);
      }));
  RETURN_IF_ERROR(decoder->Finish().status());
  return builder->Finish();
}

void LayerLoader::Forget(const std::string& id, const absl::Status& error) {
  StateDirectory* const state = store_->state();
  state->SetAside(id);
  if (state->Has(id)) return;
  if (store_->metrics() != nullptr) store_->metrics()->StateFilesDamaged(1);
  const bool dropped = store_->Unload(kAnybody, id).ok();
  EVENT(ERROR, "layer_lost")
      .With("id", id)
      .With("unloaded", dropped)
      .With("error", error.message());
}

}  // namespace qgemm
