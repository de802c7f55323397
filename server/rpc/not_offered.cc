// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/not_offered.h"

#include "absl/strings/str_cat.h"
#include "server/rpc/grpc_status.h"

namespace qgemm {
namespace {

struct OptionalMethod {
  const char* path;
  const char* flag;
};

constexpr OptionalMethod kOptionalMethods[] = {
    {kEchoPath, "--enable_echo"}, {kFreezePath, "--enable_freeze"}};

// Ends its call at once and itself with it.
class RefusingReactor final : public grpc::ServerGenericBidiReactor {
 public:
  explicit RefusingReactor(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

absl::Status NotOffered(absl::string_view path) {
  for (const OptionalMethod& method : kOptionalMethods) {
    if (path == method.path) {
      return absl::UnimplementedError(
          absl::StrCat(path, " is off; the server's flag ", method.flag,
                       " offers it, for tests and measurements"));
    }
  }
  return absl::UnimplementedError(
      absl::StrCat("the server has no method ", path));
}

grpc::ServerGenericBidiReactor* NotOfferedService::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  return new RefusingReactor(ToGrpcStatus(NotOffered(context->method())));
}

}  // namespace qgemm
