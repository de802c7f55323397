// SPDX-License-Identifier: Apache-2.0
//
// A transport that answers at once with nothing: what the generator itself
// costs and can hold.

#ifndef QGEMM_LOADTEST_ENGINE_NULL_TRANSPORT_H_
#define QGEMM_LOADTEST_ENGINE_NULL_TRANSPORT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "loadtest/engine/transport.h"

namespace qgemm {

class NullTransportFactory final : public TransportFactory {
 public:
  absl::StatusOr<std::unique_ptr<Transport>> Open(int places,
                                                  RequestSink* sink) override;
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_ENGINE_NULL_TRANSPORT_H_
