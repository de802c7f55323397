// SPDX-License-Identifier: Apache-2.0
//
// The layers of a load test on the server: found, uploaded, removed.

#ifndef QGEMM_LOADTEST_LAYER_SETUP_H_
#define QGEMM_LOADTEST_LAYER_SETUP_H_

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/matrix/canonical_weights.h"
#include "loadtest/load_set.h"
#include "loadtest/options.h"
#include "loadtest/workload/synthetic_layers.h"
#include "loadtest/workload/synthetic_name.h"
#include "qgemm/client.h"

namespace qgemm {

// Prepare, then TearDown, whatever Prepare returned. Not thread-safe.
class LayerSetup {
 public:
  // With Keep::kUploadAndRemove synthetic layers get
  // names of this run's own, so that load tests at one server do not take each
  // other's away; else the names that SyntheticName gives.
  explicit LayerSetup(const LoadtestOptions& options);

  // Uploads or looks up every layer, `progress` after each. Errors: NOT_FOUND
  // (a name that is not there), the upload's; CANCELLED once `stop` is true.
  absl::Status Prepare(Client* client, const std::atomic<bool>& stop,
                       const std::function<void(int done, int all)>& progress);

  // Removes what is to be removed; the first error, after trying all. `client`
  // is null if the server is gone.
  absl::Status TearDown(Client* client);

  const std::vector<LoadedLayer>& layers() const { return layers_; }

  // The canonical form that the server made of a layer, made again.
  // FAILED_PRECONDITION if the layer is not synthetic.
  absl::StatusOr<CanonicalWeights> Canonical(int layer);

 private:
  void NumberSynthetic();
  absl::Status Upload(Client* client, int layer);

  const LoadtestOptions options_;
  const std::string private_prefix_;
  std::vector<std::string> names_;
  std::vector<LoadedLayer> layers_;
  std::vector<SyntheticLayer> synthetic_;  // empty for named weights
  SyntheticLayers maker_;
  int uploaded_ = 0;
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_LAYER_SETUP_H_
