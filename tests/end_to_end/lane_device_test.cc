// SPDX-License-Identifier: Apache-2.0
//
// Memory of GPUs that clients attach to their lanes. Files stand for it, which
// a fake backend maps.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/file_descriptor.h"
#include "server/server.h"
#include "tests/end_to_end/lane_fixture.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

// A file that stands for memory of a GPU, and what is in it.
class FakeDeviceMemory {
 public:
  explicit FakeDeviceMemory(int64_t bytes)
      : file_(memfd_create("gpu", MFD_CLOEXEC)), bytes_(bytes) {
    CHECK_EQ(ftruncate(file_.get(), bytes), 0);
    data_ = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                    MAP_SHARED, file_.get(), 0));
    CHECK(data_ != MAP_FAILED);
  }
  FakeDeviceMemory(const FakeDeviceMemory&) = delete;
  FakeDeviceMemory& operator=(const FakeDeviceMemory&) = delete;
  ~FakeDeviceMemory() { munmap(data_, bytes_); }

  int fd() const { return file_.get(); }
  char* data() const { return data_; }

 private:
  const FileDescriptor file_;
  const int64_t bytes_;
  char* data_;
};

class DeviceOperandsTest : public LaneOnHeldServerTest {
 protected:
  DeviceOperandsTest() : LaneOnHeldServerTest(true) {}
};

TEST_F(DeviceOperandsTest, AreUsedWhereTheyLieUntilTheLaneEnds) {
  constexpr int64_t kBytes = 8192;
  const int64_t leases = server_.backend().leases();
  const FakeDeviceMemory memory(kBytes);
  const auto attached = lane_->Attach(memory.fd(), kBytes);
  ASSERT_TRUE(attached.ok()) << attached.text;
  EXPECT_EQ(attached.message.region, 1u);
  // A from the one, C to the other memory, and back.
  entry_.c_region = 1;
  ASSERT_TRUE(lane_->Call(entry_));
  ASSERT_EQ(lane_->completion(0).code, 0u) << lane_->MessageOf(0);
  EXPECT_EQ(std::string(memory.data() + entry_.c_offset, entry_.c_bytes),
            expected_);
  std::memcpy(memory.data(), request_.a().data(), request_.a().size());
  std::memset(lane_->operands(), 0, entry_.c_offset + entry_.c_bytes);
  entry_.a_region = 1;
  entry_.c_region = 0;
  ++entry_.cookie;
  ASSERT_TRUE(lane_->Call(entry_));
  EXPECT_EQ(ResultOf(entry_, *lane_), expected_);
  // No such region, and beyond one.
  ++entry_.cookie;
  entry_.a_region = 2;
  ASSERT_TRUE(lane_->Call(entry_));
  EXPECT_THAT(lane_->MessageOf(0), HasSubstr("a_region = 2; the lane has 1"));
  ++entry_.cookie;
  entry_.a_region = 1;
  entry_.a_offset = kBytes;
  ASSERT_TRUE(lane_->Call(entry_));
  EXPECT_THAT(lane_->MessageOf(0), HasSubstr("beyond the 8192 bytes"));
  EXPECT_EQ(server_.backend().leases(), leases + 1);
  lane_.reset();
  while (server_.backend().leases() >= leases) std::this_thread::yield();
}

TEST_F(DeviceOperandsTest, RefusesWhatIsNoneAndMoreThanALaneMayHave) {
  const FakeDeviceMemory memory(4096);
  const auto code = [&](int descriptor, uint64_t bytes) {
    return static_cast<absl::StatusCode>(
        lane_->Attach(descriptor, bytes).code());
  };
  EXPECT_EQ(code(-1, 4096), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(memory.fd(), 4097), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(STDIN_FILENO, 4096), absl::StatusCode::kInvalidArgument);
  for (uint32_t i = 0; i < lane::kMaxRegions; ++i) {
    EXPECT_EQ(code(memory.fd(), 4096), absl::StatusCode::kOk);
  }
  EXPECT_EQ(code(memory.fd(), 4096), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(lane_->Call(entry_));
  EXPECT_EQ(ResultOf(entry_, *lane_), expected_);
}

TEST(DeviceOperandsOptionTest, AServerTakesNoneUnlessToldTo) {
  const TemporaryFolder folder;
  const HeldServer server(LaneServerOptions(folder));
  RawLane lane(folder.File("lane"));
  ASSERT_TRUE(lane.Hello(kLaneBytes).ok());
  const FakeDeviceMemory memory(4096);
  const auto refused = lane.Attach(memory.fd(), 4096);
  EXPECT_EQ(refused.code(),
            static_cast<uint32_t>(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(refused.text, HasSubstr("--allow_device_operands"));
}

TEST(DeviceOperandsOptionTest, ABackendWithoutAGpuTakesNone) {
  const TemporaryFolder folder;
  ServerOptions options = LaneServerOptions(folder);
  options.allow_device_operands = true;
  const absl::Status refused = Server::Create(options).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("--allow_device_operands: the backend computes in no"));
}

}  // namespace
}  // namespace qgemm
