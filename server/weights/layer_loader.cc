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

void LayerLoader::Fetch(const std::string& id, Loaded loaded) {
  {
    MutexLock lock(&mutex_);
    if (!stopping_) {
      Job& job = jobs_[id];
      job.waiting.push_back(std::move(loaded));
      if (!std::exchange(job.is_urgent, true) && !job.is_running) {
        urgent_.push_back(id);
      }
      changed_.Signal();
      return;
    }
  }
  loaded(Stopped());
}

LayerLoader::Result LayerLoader::Await(const std::string& id) {
  std::promise<Result> promise;
  std::future<Result> future = promise.get_future();
  Fetch(id,
        [&promise](Result result) { promise.set_value(std::move(result)); });
  return future.get();
}

void LayerLoader::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  std::map<std::string, Job> left;
  {
    MutexLock lock(&mutex_);
    left.swap(jobs_);
  }
  for (auto& [unused, job] : left) {
    for (Loaded& loaded : job.waiting) loaded(Stopped());
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
    std::deque<std::string>& queue = urgent_.empty() ? background_ : urgent_;
    if (queue.empty()) {
      changed_.Wait(&mutex_);
      continue;
    }
    std::string id = std::move(queue.front());
    queue.pop_front();
    // A layer that was in both queues leaves a place over.
    const auto job = jobs_.find(id);
    if (job == jobs_.end() || job->second.is_running) continue;
    job->second.is_running = true;
    return Picked{std::move(id), job->second.is_urgent};
  }
  return std::nullopt;
}

void LayerLoader::EndJob(const Picked& picked, const Result& result) {
  const std::string& id = picked.id;
  std::vector<Loaded> waiting;
  {
    MutexLock lock(&mutex_);
    const auto job = jobs_.find(id);
    // Somebody has asked for it meanwhile: others leave memory for it then.
    if (absl::IsResourceExhausted(result.status()) && !picked.is_urgent &&
        job->second.is_urgent && !stopping_) {
      job->second.is_running = false;
      urgent_.push_back(id);
      changed_.Signal();
      return;
    }
    waiting = std::move(job->second.waiting);
    jobs_.erase(job);
    loading_.erase(id);
    loading_first_.erase(id);
  }
  for (Loaded& loaded : waiting) loaded(result);
}

LayerLoader::Result LayerLoader::Load(const Picked& picked) {
  const std::string& id = picked.id;
  ASSIGN_OR_RETURN(const auto held, store_->Find(kAnybody, id));
  if (held->resident != nullptr) return held;
  const absl::Time start = absl::Now();
  Result loaded = LoadFrom(held, picked.is_urgent);
  const absl::Status& status = loaded.status();
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
  const int64_t bytes = backend_->EstimateResidentBytes(ShapeOf(held->spec)) +
                        kLayerRecordBytes + DecoderBytes(held->spec);
  ASSIGN_OR_RETURN(ByteReservation reservation,
                   is_urgent ? store_->Reserve(kAnybody, bytes)
                             : store_->ReserveFree(bytes));
  ASSIGN_OR_RETURN(auto resident, Build(*held));
  RETURN_IF_ERROR(WeightStore::Resize(
      kAnybody, resident->resident_bytes() + kLayerRecordBytes, &reservation));
  auto loaded =
      store_->MakeResident(held, std::move(resident), std::move(reservation));
  if (loaded == nullptr) return UnknownRecord("weights", held->id);
  return loaded;
}

absl::StatusOr<std::shared_ptr<const ResidentWeights>> LayerLoader::Build(
    const Weights& held) {
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
