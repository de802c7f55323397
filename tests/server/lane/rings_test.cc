// SPDX-License-Identifier: Apache-2.0

#include "server/lane/rings.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "server/lane/lane_memory.h"
#include "server/lane/lane_sockets.h"
#include "tests/support/fake_async_backend.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kSlots = 8;

class RingsTest : public ::testing::Test {
 protected:
  RingsTest() {
    auto memory = LaneMemory::Create(LayOutLane(kSlots, 10000), &backend_);
    EXPECT_TRUE(memory.ok()) << memory.status();
    memory_ = *std::move(memory);
    auto events = MakeLaneEvents();
    EXPECT_TRUE(events.ok()) << events.status();
    client_wake_ = std::move(events->client_wake);
    writer_ = std::make_unique<CompletionWriter>(memory_.get(),
                                                 std::move(events->wake));
  }

  // The client's view: a mapping of its own.
  lane::RequestEntry& Entry(uint64_t position) {
    return const_cast<lane::RequestEntry*>(
        memory_->requests())[position % kSlots];
  }
  bool WasWoken() {
    uint64_t packet;
    return recv(client_wake_.get(), &packet, sizeof(packet), MSG_DONTWAIT) ==
           sizeof(packet);
  }

  FakeAsyncBackend backend_;
  std::unique_ptr<LaneMemory> memory_;
  FileDescriptor client_wake_;
  std::unique_ptr<CompletionWriter> writer_;
};

TEST(LaneLayoutTest, PartsArePagesApart) {
  const LaneLayout layout = LayOutLane(256, 1);
  EXPECT_EQ(layout.requests_offset, 4096);
  EXPECT_EQ(layout.completions_offset, 4096 + 256 * 64);
  EXPECT_EQ(layout.done_words_offset, layout.completions_offset + 256 * 512);
  EXPECT_EQ(layout.operands_offset, layout.done_words_offset + 4096);
  EXPECT_EQ(layout.operands_bytes, 4096);
  EXPECT_EQ(layout.segment_bytes, layout.operands_offset + 4096);
}

TEST_F(RingsTest, TheMemoryCannotChangeItsSize) {
  const int fd = memory_->fd();
  struct stat file;
  ASSERT_EQ(fstat(fd, &file), 0);
  EXPECT_EQ(file.st_size, memory_->layout().segment_bytes);
  // All of it is there.
  EXPECT_GE(file.st_blocks * 512, file.st_size);
  EXPECT_EQ(ftruncate(fd, 1), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(ftruncate(fd, file.st_size + 1), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ(errno, EPERM);
}

TEST_F(RingsTest, HolesInTheMemoryAreZeros) {
  memory_->operands()[0] = 1;
  ASSERT_EQ(fallocate(memory_->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      0, memory_->layout().segment_bytes),
            0);
  EXPECT_EQ(memory_->operands()[0], 0);
  memory_->operands()[0] = 2;
  EXPECT_EQ(memory_->operands()[0], 2);
}

TEST_F(RingsTest, TakesWhatIsPublishedInOrder) {
  RequestReader reader(memory_.get());
  uint64_t published = 0;
  for (int round = 0; round < 5; ++round) {
    for (uint32_t i = 0; i < kSlots; ++i) {
      Entry(published).handle = static_cast<uint32_t>(published);
      memory_->head().published.store(++published);
    }
    for (uint32_t i = kSlots; i > 0; --i) {
      ASSERT_EQ(*reader.Waiting(), i);
      EXPECT_EQ(reader.Take().handle, published - i);
    }
    EXPECT_EQ(*reader.Waiting(), 0u);
  }
}

TEST_F(RingsTest, RefusesACountThatRunsAheadOrBack) {
  for (const uint64_t wrong :
       {uint64_t{kSlots + 3}, uint64_t{1}, ~uint64_t{0}, uint64_t{1} << 63}) {
    memory_->head().published.store(2);
    RequestReader reader(memory_.get());
    reader.Take();
    reader.Take();
    memory_->head().published.store(wrong);
    const absl::Status status = reader.Waiting().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("after 2 requests were taken"));
  }
}

TEST_F(RingsTest, DoesNotFallAsleepOverARequest) {
  RequestReader reader(memory_.get());
  EXPECT_TRUE(reader.FallAsleep());
  EXPECT_EQ(memory_->head().server_sleeps.load(), 1u);
  reader.StayAwake();
  EXPECT_EQ(memory_->head().server_sleeps.load(), 0u);
  memory_->head().published.store(1);
  EXPECT_FALSE(reader.FallAsleep());
  EXPECT_EQ(memory_->head().server_sleeps.load(), 0u);
}

TEST_F(RingsTest, ASlotHasOneRequestAtATime) {
  EXPECT_EQ(writer_->Claim(3), absl::OkStatus());
  EXPECT_EQ(writer_->Claim(3).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(writer_->Claim(kSlots).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(writer_->Claim(~0u).code(), absl::StatusCode::kFailedPrecondition);
  writer_->Write(3, 1, {});
  EXPECT_EQ(writer_->Claim(3), absl::OkStatus());
}

TEST_F(RingsTest, WritesErrorsAsFarAsTheyFit) {
  ASSERT_EQ(writer_->Claim(1), absl::OkStatus());
  LaneAnswer answer;
  answer.status = absl::NotFoundError(std::string(1000, 'x'));
  answer.retry_delay = absl::Milliseconds(5);
  writer_->Write(1, 9, answer);
  const lane::Completion& completion = memory_->completions()[1];
  EXPECT_EQ(completion.cookie.load(), 9u);
  EXPECT_EQ(completion.code, 5u);
  EXPECT_EQ(completion.message_bytes, lane::kMaxMessageBytes);
  EXPECT_EQ(std::string(completion.message, lane::kMaxMessageBytes),
            std::string(lane::kMaxMessageBytes, 'x'));
  EXPECT_EQ(completion.retry_delay_ns, 5000000u);
  // The next slot's is untouched.
  EXPECT_EQ(memory_->completions()[2].cookie.load(), 0u);
  EXPECT_EQ(memory_->completions()[2].code, 0u);
}

TEST_F(RingsTest, WakesOnlyThoseThatSleep) {
  ASSERT_EQ(writer_->Claim(0), absl::OkStatus());
  EXPECT_FALSE(writer_->Write(0, 1, {}));
  writer_->Wake(0);
  EXPECT_FALSE(WasWoken());
  memory_->head().client_sleeps.store(1);
  ASSERT_EQ(writer_->Claim(0), absl::OkStatus());
  EXPECT_TRUE(writer_->Write(0, 2, {}));
  EXPECT_FALSE(WasWoken());
  writer_->Wake(0);
  EXPECT_TRUE(WasWoken());
  EXPECT_FALSE(WasWoken());
}

TEST_F(RingsTest, AClientThatReadsNoWakesHoldsNobodyUp) {
  // It may clear the flag of the description that both share.
  memory_->head().client_sleeps.store(1);
  ASSERT_EQ(fcntl(client_wake_.get(), F_SETFL, 0), 0);
  for (uint32_t i = 1; i < 100000; ++i) {
    ASSERT_EQ(writer_->Claim(0), absl::OkStatus());
    ASSERT_TRUE(writer_->Write(0, i, {}));
    writer_->Wake(0);
  }
  client_wake_.Reset();
  ASSERT_EQ(writer_->Claim(0), absl::OkStatus());
  ASSERT_TRUE(writer_->Write(0, 100000, {}));
  writer_->Wake(0);
  writer_->End(absl::StatusCode::kUnavailable);
  EXPECT_EQ(memory_->head().ended.load(), 14u);
}

TEST_F(RingsTest, CompletionsOfManyThreadsAreAllInTheRing) {
  std::vector<std::thread> threads;
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    threads.emplace_back([this, slot] {
      ASSERT_EQ(writer_->Claim(slot), absl::OkStatus());
      writer_->Write(slot, 1, {});
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<uint32_t> slots;
  for (uint64_t position = 0; position < kSlots; ++position) {
    const uint64_t word = memory_->done_words()[position].load();
    EXPECT_EQ(word >> 32, 1u);
    slots.insert(static_cast<uint32_t>(word));
  }
  EXPECT_EQ(slots.size(), kSlots);
}

}  // namespace
}  // namespace qgemm
