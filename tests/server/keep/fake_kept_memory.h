// SPDX-License-Identifier: Apache-2.0
//
// Kept memory without memory: its layers are numbers, and its chunks are
// whatever descriptor a test makes.

#ifndef QGEMM_TESTS_SERVER_KEEP_FAKE_KEPT_MEMORY_H_
#define QGEMM_TESTS_SERVER_KEEP_FAKE_KEPT_MEMORY_H_

#include <fcntl.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/matrix/kept_memory.h"
#include "server/keep/descriptor_holder.h"

namespace qgemm {

class FakeLayer final : public ResidentWeights {
 public:
  explicit FakeLayer(int64_t number) : ResidentWeights(1, 1), number_(number) {}
  int64_t resident_bytes() const override { return 256; }
  int64_t number() const { return number_; }

 private:
  const int64_t number_;
};

// For one thread.
class FakeKeptMemory final : public KeptMemory {
 public:
  KeptDevice device() const override { return device_; }
  void SetDriverVersion(uint32_t version) { device_.driver_version = version; }

  std::optional<KeptLayer> PlaceOf(
      const ResidentWeights& weights) const override {
    const int64_t number = static_cast<const FakeLayer&>(weights).number();
    return KeptLayer{{256, 0, "detail"}, 0, 256 * number};
  }
  void Watch(ChunkWatcher* watcher) override { watcher_ = watcher; }
  absl::Status Adopt(uint32_t chunk, int64_t size_bytes,
                     FileDescriptor /*descriptor*/) override {
    adopted[chunk] = size_bytes;
    return absl::OkStatus();
  }
  absl::StatusOr<std::shared_ptr<const ResidentWeights>> Inherit(
      const KeptLayer& layer) override {
    return std::make_shared<const FakeLayer>(layer.offset_bytes / 256);
  }
  void EndAdoption() override { adoption_has_ended = true; }

  ChunkWatcher* watcher() { return watcher_; }

  std::map<uint32_t, int64_t> adopted;
  bool adoption_has_ended = false;

 private:
  KeptDevice device_;
  ChunkWatcher* watcher_ = nullptr;
};

// Holds copies, also when a server comes and goes. For one thread.
class FakeHolder final : public DescriptorHolder {
 public:
  absl::StatusOr<std::vector<HeldDescriptor>> Claim() override {
    std::vector<HeldDescriptor> held;
    for (const auto& [name, descriptor] : stored) {
      held.push_back({name, CopyOf(descriptor.get())});
    }
    return held;
  }
  absl::Status Store(const std::string& name, int descriptor) override {
    stored[name] = CopyOf(descriptor);
    return absl::OkStatus();
  }
  absl::Status Drop(const std::string& name) override {
    stored.erase(name);
    return absl::OkStatus();
  }

  std::map<std::string, FileDescriptor> stored;

 private:
  static FileDescriptor CopyOf(int descriptor) {
    return FileDescriptor(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  }
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_SERVER_KEEP_FAKE_KEPT_MEMORY_H_
