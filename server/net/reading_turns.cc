// SPDX-License-Identifier: Apache-2.0

#include "server/net/reading_turns.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace qgemm {
namespace {

// A poll of 500 connections takes some 0.1 ms; 40 calls of clients that keep
// the server busy take 2 ms.
constexpr absl::Duration kRoundTime = absl::Milliseconds(2);
constexpr absl::Duration kTurnTime = absl::Microseconds(500);

// Rounds beyond this are measured by what the thread has run: a system call.
constexpr absl::Duration kLongRound = absl::Microseconds(250);

// Turns of one client in a round: as many surprises at most.
constexpr int kClientTurns = 16;

// Bytes of a turn, by what they cost, and at the first of its reads, when they
// may turn out to cost more. To copy the most takes 80 us.
constexpr int64_t kLeastTurnBytes = int64_t{1} << 10;
constexpr int64_t kMaxTurnBytes = int64_t{256} << 10;
constexpr int64_t kFirstReadBytes = int64_t{16} << 10;

constexpr absl::Duration kHalfLife = absl::Milliseconds(100);

// Connections and clients beyond which those that have come before are learned
// anew.
constexpr size_t kMaxKnown = 4096;

}  // namespace

void ReadingTurns::Cost::Learn(absl::Duration taken, int64_t bytes) {
  turn = std::max((turn + taken) / 2, absl::Microseconds(1));
  if (bytes == 0) return;
  time = std::max(time / 2 + taken, absl::Microseconds(1));
  kib = kib / 2 + static_cast<double>(bytes) / 1024;
}

int64_t ReadingTurns::Cost::TurnBytes() const {
  const double bytes = absl::FDivDuration(kTurnTime, time) * kib * 1024;
  if (bytes >= static_cast<double>(kMaxTurnBytes)) return kMaxTurnBytes;
  return std::max(kLeastTurnBytes, static_cast<int64_t>(bytes));
}

void ReadingTurns::BeginRound() {
  const absl::Time now = clock_->Now();
  Learn(RunSince(now - round_start_));
  Forget(now);
  ++round_;
  round_start_ = now;
  readers_.clear();
  ended_ = false;
  chosen_ = next_;
  next_.reset();
  taken_ = absl::ZeroDuration();
  planned_ =
      chosen_ ? ConnectionOf(chosen_->reader).cost.turn : absl::ZeroDuration();
}

// Part of the time that has passed in which the thread has run.
absl::Duration ReadingTurns::RunSince(absl::Duration passed) {
  if (passed < kLongRound) return passed;
  const absl::Time run = run_clock_->Now();
  return std::min(passed, run - std::exchange(last_run_, run));
}

void ReadingTurns::Learn(absl::Duration round) {
  if (readers_.empty()) return;
  const double scale = absl::FDivDuration(round, taken_);
  for (const Reader reader : readers_) {
    Connection& connection = ConnectionOf(reader);
    Client& client = ClientOf(reader);
    const absl::Duration taken = connection.cost.turn * scale;
    connection.cost.Learn(taken, connection.bytes);
    client.cost.Learn(taken, connection.bytes);
    client.time += taken;
  }
}

void ReadingTurns::Forget(absl::Time now) {
  if (connections_.size() > kMaxKnown) connections_.clear();
  if (clients_.size() > kMaxKnown) clients_.clear();
  if (now - halved_ < kHalfLife) return;
  halved_ = now;
  for (auto& [id, client] : clients_) client.time /= 2;
}

int64_t ReadingTurns::Allow(Reader reader) {
  Connection& connection = ConnectionOf(reader);
  if (connection.round == round_) {
    if (connection.bytes >= kFirstReadBytes &&
        clock_->Now() - round_start_ >= kRoundTime) {
      return 0;
    }
    return std::max<int64_t>(0, connection.cost.TurnBytes() - connection.bytes);
  }
  Client& client = ClientOf(reader);
  if (!IsChosen(reader) && !HasRoom(connection, client)) {
    Refuse(reader, connection, client);
    return 0;
  }
  Take(reader, &connection, &client);
  // The first of a client's turns may be one large read, others begin small.
  const int64_t bytes =
      std::min(connection.cost.TurnBytes(),
               std::max(kFirstReadBytes, kMaxTurnBytes - client.bytes));
  client.bytes += bytes;
  return bytes;
}

bool ReadingTurns::HasRoom(const Connection& connection,
                           const Client& client) const {
  if (client.round == round_ && client.turns >= kClientTurns) return false;
  if (chosen_ && client.time > chosen_->client_time) return false;
  return planned_ == absl::ZeroDuration() ||
         planned_ + connection.cost.turn <= kRoundTime;
}

void ReadingTurns::Take(Reader reader, Connection* connection, Client* client) {
  if (!IsChosen(reader)) planned_ += connection->cost.turn;
  taken_ += connection->cost.turn;
  connection->round = round_;
  connection->turn = ++turns_;
  connection->bytes = 0;
  if (client->round != round_) {
    client->turns = 0;
    client->bytes = 0;
  }
  client->round = round_;
  ++client->turns;
  readers_.push_back(reader);
}

void ReadingTurns::Refuse(Reader reader, const Connection& connection,
                          const Client& client) {
  if (next_ && std::tie(next_->client_time, next_->turn) <=
                   std::tie(client.time, connection.turn)) {
    return;
  }
  next_ = Candidate{reader, client.time, connection.turn};
}

void ReadingTurns::Add(Reader reader, int64_t bytes) {
  ConnectionOf(reader).bytes += bytes;
}

bool ReadingTurns::AllowEnd(Reader reader) {
  Connection& connection = ConnectionOf(reader);
  Client& client = ClientOf(reader);
  if (ended_ && !IsChosen(reader)) {
    Refuse(reader, connection, client);
    return false;
  }
  ended_ = true;
  if (connection.round != round_) Take(reader, &connection, &client);
  return true;
}

bool ReadingTurns::IsChosen(Reader reader) const {
  return chosen_ && chosen_->reader.connection == reader.connection;
}

ReadingTurns::Connection& ReadingTurns::ConnectionOf(Reader reader) {
  Connection& connection = connections_[reader.connection];
  if (connection.turn == 0) connection.cost = ClientOf(reader).cost;
  return connection;
}

ReadingTurns::Client& ReadingTurns::ClientOf(Reader reader) {
  return clients_[reader.client];
}

}  // namespace qgemm
