// SPDX-License-Identifier: Apache-2.0
//
// Compares the hash of each layer's file to its id in the background: a
// checksum a MiB finds what the disk has changed, the hash what was wrong from
// the start.

#ifndef QGEMM_SERVER_WEIGHTS_LAYER_SCRUBBER_H_
#define QGEMM_SERVER_WEIGHTS_LAYER_SCRUBBER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/weights/background_thread.h"
#include "server/weights/layer_loader.h"
#include "server/weights/weight_store.h"

namespace qgemm {

struct LayerScrubberOptions {
  // A core hashes some 1.2 GB a second: this takes a tenth of one, and little
  // of a disk.
  int64_t bytes_per_second = int64_t{128} << 20;
  absl::Duration interval = absl::Hours(24);  // between two rounds
  absl::Duration poll = absl::Seconds(1);  // for the end of the start's loads
};

// The first round begins when the loader has brought the layers of the start.
// A layer whose file is wrong is forgotten as the loader does it. One thread.
class LayerScrubber {
 public:
  // The store has a state directory. Both must outlive the scrubber.
  LayerScrubber(WeightStore* store, LayerLoader* loader,
                const LayerScrubberOptions& options = {});
  LayerScrubber(const LayerScrubber&) = delete;
  LayerScrubber& operator=(const LayerScrubber&) = delete;
  ~LayerScrubber() { Stop(); }

  // Once, after the loader's Start.
  void Start() {
    thread_.Start([this] { Run(); });
  }
  // May be repeated.
  void Stop() { thread_.Stop(); }

 private:
  void Run();
  // Ids of all layers that the store has.
  std::vector<std::string> HeldIds() const;
  void Scrub(const std::string& id);
  // Pauses for as long as the rate wants it after so many bytes. CANCELLED once
  // stopped.
  absl::Status Pace(int64_t bytes);

  WeightStore* const store_;
  LayerLoader* const loader_;
  const LayerScrubberOptions options_;
  int64_t unpaced_bytes_ = 0;  // the thread's
  BackgroundThread thread_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_LAYER_SCRUBBER_H_
