// SPDX-License-Identifier: Apache-2.0
//
// A server that drains answers at once, so that it has the least work in
// flight: the mark of failing keeps calls away from it.

#include "client/channel_pool.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"

namespace qgemm {
namespace {

// A server that answered UNAVAILABLE is asked last for so long.
constexpr absl::Duration kFailingFor = absl::Seconds(1);

ServerSet BitOf(size_t server) { return ServerSet{1} << server; }

bool IsReady(const ServerChannel& channel, bool try_to_connect) {
  return channel.channel->GetState(try_to_connect) == GRPC_CHANNEL_READY;
}

size_t CountServers(const Channels& channels) {
  size_t servers = 0;
  for (const ServerChannel& each : channels) {
    servers = std::max(servers, each.server + 1);
  }
  return servers;
}

// Rank of a channel by all but its work; calls take the lowest.
int RankOf(const ChannelState& state) {
  return (state.ready ? 0 : 4) + (state.tried ? 2 : 0) +
         (state.failing ? 1 : 0);
}

}  // namespace

size_t ChooseChannel(absl::Span<const ChannelState> channels, size_t first) {
  size_t best = first % channels.size();
  for (size_t i = 1; i < channels.size(); ++i) {
    const size_t index = (first + i) % channels.size();
    const int rank = RankOf(channels[index]);
    const int best_rank = RankOf(channels[best]);
    if (rank < best_rank ||
        (rank == best_rank &&
         channels[index].outstanding < channels[best].outstanding)) {
      best = index;
    }
  }
  return best;
}

ChannelPool::ChannelPool(Channels channels)
    : channels_(std::move(channels)),
      servers_(CountServers(channels_)),
      loads_(channels_.size()),
      failing_until_(servers_, absl::InfinitePast()) {}

ChannelPool::Candidates ChannelPool::FindCandidates(
    const Request& request) const {
  Candidates candidates;
  for (size_t i = 0; i < channels_.size(); ++i) {
    const size_t server = channels_[i].server;
    if (request.server.value_or(server) != server) continue;
    ChannelState state;
    state.ready = IsReady(channels_[i], /*try_to_connect=*/true);
    state.tried = (request.tried & BitOf(server)) != 0;
    candidates.indexes.push_back(i);
    candidates.states.push_back(state);
  }
  return candidates;
}

size_t ChannelPool::Choose(const Request& request, Candidates candidates,
                           size_t turn) const {
  const bool by_streams = request.is_stream || request.precedes_stream;
  const absl::Time now = absl::Now();
  for (size_t i = 0; i < candidates.indexes.size(); ++i) {
    const size_t index = candidates.indexes[i];
    const Load& load = loads_[index];
    ChannelState& state = candidates.states[i];
    state.outstanding = by_streams ? load.streams : load.rows;
    state.failing = now < failing_until_[channels_[index].server];
  }
  return candidates.indexes[ChooseChannel(candidates.states, turn)];
}

ChannelPool::Place ChannelPool::Enter(const Request& request) {
  // The channels of one server are taken in turn, without a look at them.
  Candidates candidates;
  if (servers_ > 1) candidates = FindCandidates(request);
  Place place;
  place.rows = request.rows;
  place.is_stream = request.is_stream;
  {
    MutexLock lock(&mutex_);
    const size_t turn = request.is_stream ? next_stream_++ : next_call_++;
    place.index = servers_ > 1 ? Choose(request, std::move(candidates), turn)
                               : turn % channels_.size();
    if (servers_ > 1) AddTo(place, 1);
  }
  place.server = channels_[place.index].server;
  place.channel = channels_[place.index].channel;
  return place;
}

void ChannelPool::Leave(const Place& place, const absl::Status& end) {
  if (servers_ == 1) return;
  MutexLock lock(&mutex_);
  AddTo(place, -1);
  if (absl::IsUnavailable(end)) {
    failing_until_[place.server] = absl::Now() + kFailingFor;
  }
}

void ChannelPool::AddTo(const Place& place, int sign) {
  Load& load = loads_[place.index];
  (place.is_stream ? load.streams : load.rows) +=
      sign * (place.is_stream ? 1 : place.rows);
}

ChannelPool::ServerLoad ChannelPool::LoadOf(size_t server) {
  ServerLoad load;
  for (const ServerChannel& each : channels_) {
    if (each.server != server) continue;
    if (IsReady(each, /*try_to_connect=*/false)) ++load.connected;
  }
  MutexLock lock(&mutex_);
  for (size_t i = 0; i < channels_.size(); ++i) {
    if (channels_[i].server == server) load.rows += loads_[i].rows;
  }
  return load;
}

bool ChannelPool::HasUntried(ServerSet tried) const {
  return servers_ > 1 &&
         std::any_of(channels_.begin(), channels_.end(),
                     [tried](const ServerChannel& each) {
                       return (tried & BitOf(each.server)) == 0 &&
                              IsReady(each, /*try_to_connect=*/false);
                     });
}

}  // namespace qgemm
