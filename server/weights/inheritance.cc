// SPDX-License-Identifier: Apache-2.0
//
// Threads take the records in turn; each layer stands for itself.

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "server/weights/layer_loader.h"

namespace qgemm {
namespace {

absl::Status Inherit(const ManifestRecord& record, KeptMemory* memory,
                     WeightStore* store) {
  ASSIGN_OR_RETURN(const auto held, store->Find(kAnybody, record.id));
  if (held->resident != nullptr) {
    return absl::AlreadyExistsError("another record of the layer was first");
  }
  if (CanonicalText(held->spec) != record.spec) {
    return absl::InvalidArgumentError("the layer's file has another spec");
  }
  ASSIGN_OR_RETURN(
      ByteReservation reservation,
      store->ReserveFree(record.layer.size_bytes + kLayerRecordBytes));
  ASSIGN_OR_RETURN(auto resident, memory->Inherit(record.layer));
  if (resident->n() != held->spec.n || resident->k() != held->spec.k) {
    return absl::InvalidArgumentError(
        absl::StrCat("a layer of ", resident->n(), " x ", resident->k()));
  }
  const auto loaded =
      store->MakeResident(held, std::move(resident), std::move(reservation));
  if (loaded != nullptr && loaded->resident != nullptr) return absl::OkStatus();
  return absl::NotFoundError("the layer was unloaded");
}

}  // namespace

InheritedLayers InheritLayers(int threads, KeptLayers* kept,
                              WeightStore* store) {
  const absl::Time start = SteadyClock().Now();
  const std::vector<ManifestRecord> records = kept->TakeRecords();
  std::atomic<size_t> next{0};
  std::atomic<int64_t> layers{0};
  std::atomic<int64_t> bytes{0};
  const auto work = [&] {
    for (size_t i = next++; i < records.size(); i = next++) {
      const absl::Status status = Inherit(records[i], kept->memory(), store);
      if (status.ok()) {
        ++layers;
        bytes += records[i].layer.size_bytes;
      } else {
        EVENT(WARNING, "layer_not_inherited")
            .With("id", records[i].id)
            .With("error", status.message());
      }
    }
  };
  std::vector<std::thread> workers;
  const int needed = std::min<int>(threads, static_cast<int>(records.size()));
  for (int i = 1; i < needed; ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  kept->EndInheritance();
  InheritedLayers inherited;
  inherited.layers = layers;
  inherited.bytes = bytes;
  inherited.dropped_layers = static_cast<int64_t>(records.size()) - layers;
  inherited.took = SteadyClock().Now() - start;
  return inherited;
}

}  // namespace qgemm
