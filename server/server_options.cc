// SPDX-License-Identifier: Apache-2.0
//
// Flags in the order of docs/operations.md; a test compares the two.

#include "server/server_options.h"

#include <iterator>

#include "flags/command_line.h"

namespace qgemm {
namespace {

using flags::AddBytes;
using flags::AddChoice;
using flags::AddDuration;
using flags::AddOption;
using flags::AddSwitch;

void AddAddressFlags(CLI::App* app, ServerOptions* options) {
  AddOption(app, "listen", &options->listen,
            "Addresses to serve gRPC at: host:port on a loopback address (port "
            "0 takes a free one, see --port_file), tls:host:port on any, or "
            "unix:path. May be given several times, or with commas.");
  AddOption(app, "socket_mode", &options->socket_mode,
            "Permissions of Unix sockets, octal, such as 0660. Empty: those "
            "that the umask leaves.");
  AddOption(app, "socket_group", &options->socket_group,
            "Group of Unix sockets, by name or number. Empty: the process's.");
  AddOption(app, "port_file", &options->port_file,
            "File to write the TCP ports to, one a line in the order of "
            "--listen, once the server serves.");
  AddOption(app, "metrics_listen", &options->metrics_listen,
            "host:port on a loopback address to serve Prometheus metrics at "
            "(/metrics). Empty: none.");
  AddOption(app, "lane_listen", &options->lane_listen,
            "unix:path to open lanes at, by which clients of this host share "
            "their operands' memory with the server. Empty: none.");
  AddOption(app, "access_table", &options->access_table,
            "JSON file of the clients and their rights, read again when it "
            "changes. Empty: whoever connects may everything.");
}

void AddTlsFlags(CLI::App* app, CertificatePaths* paths) {
  AddOption(app, "tls_cert", &paths->certificate,
            "PEM file with the server's certificate, and after it those "
            "between it and a root. For tls: addresses, as the flags below.");
  AddOption(app, "tls_key", &paths->key,
            "PEM file with its private key, not encrypted.");
  AddOption(app, "tls_client_ca", &paths->client_ca,
            "PEM file with the authorities to whose certificates those of "
            "clients must lead. Clients without one are refused.");
  AddOption(app, "tls_crl_dir", &paths->crl_folder,
            "Folder of revocation lists, each of one of those authorities. "
            "Empty: nothing is revoked.");
}

void AddConnectionFlags(CLI::App* app, ServerOptions* options) {
  AddOption(app, "max_connections", &options->connections.max_connections,
            "Connections at one time; more are closed at once. Fewer if the "
            "limit of open files is low.");
  AddOption(app, "max_peer_connections",
            &options->connections.max_peer_connections,
            "Connections of one client: of one user of this host, or of one "
            "address.");
  AddOption(app, "max_lanes", &options->lanes.max_lanes,
            "Lanes at one time, half of them of one client; more are refused "
            "with RESOURCE_EXHAUSTED.");
  AddBytes(app, "max_lane_bytes", &options->lanes.max_bytes,
           "Memory of all lanes, which stays in RAM; more is refused.");
  AddBytes(app, "max_client_lane_bytes", &options->lanes.max_client_bytes,
           "Memory of one client's lanes. 0: half of that of all.");
  AddSwitch(app, "allow_device_operands", &options->allow_device_operands,
            "Lets clients of lanes attach memory of the server's GPU, which "
            "requests then use in place. They can fill the driver's tables.");
  AddDuration(app, "lane_spin", &options->lane_spin,
              "Time after a lane's request for which a core looks for the "
              "next one; then it sleeps until a client wakes it.");
  GrpcSettings* const grpc = &options->grpc;
  AddDuration(app, "connection_idle_timeout", &grpc->idle_timeout,
              "A connection without a call for so long is told to go away.");
  AddDuration(app, "connection_max_age", &grpc->max_age,
              "So is a connection of this age, and its calls end after the "
              "grace.");
  AddDuration(app, "connection_max_age_grace", &grpc->max_age_grace,
              "Time for the calls of a connection of that age.");
  AddDuration(app, "keepalive_time", &grpc->keepalive_time,
              "After so long without a byte a client is asked whether it is "
              "there.");
  AddDuration(app, "keepalive_timeout", &grpc->keepalive_timeout,
              "Time for it to answer; then its connection is closed.");
  AddBytes(app, "max_transport_bytes", &grpc->max_transport_bytes,
           "gRPC's own buffers, messages that have come in part among them; "
           "beyond that it reads less, then ends calls.");
  AddChoice(app, "reflection", &grpc->reflection,
            {{"on", true}, {"off", false}},
            "Server reflection, 16 streams at most.");
  AddChoice(app, "channelz", &grpc->channelz, {{"on", true}, {"off", false}},
            "channelz, which tells every client the addresses of all.");
  AddOption(app, "grpc_channel_argument", &grpc->channel_arguments,
            "name=value of a channel argument of gRPC; wins over the flags "
            "above. May be given several times.");
}

void AddBackendFlags(CLI::App* app, BackendOptions* options) {
  AddChoice<BackendKind>(app, "backend", &options->kind,
                         {std::begin(kBackendKinds), std::end(kBackendKinds)},
                         "Backend; auto: the fastest that runs here.");
  AddOption(app, "threads", &options->cpu.threads,
            "Compute threads of the cpu backend. 0: one per core.");
  AddChoice<cuda::KernelPath>(
      app, "kernel", &options->cuda.kernel,
      {std::begin(cuda::kKernelPaths), std::end(cuda::kKernelPaths)},
      "Kernel of the cuda backend, for debugging; auto: chosen by layer and "
      "rows.");
  AddOption(app, "tuning_file", &options->cuda.tuning_file,
            "File with the thresholds of --kernel=auto, as kernel_bench "
            "--calibrate writes it, for the cuda backend. Empty: built-in "
            "ones.");
}

void AddSizeFlags(CLI::App* app, ServerOptions* options) {
  AddBytes(app, "weights_budget_bytes", &options->weights_budget_bytes,
           "Memory for resident weights, programs and uploads in progress. 0: "
           "80% of the GPU's free memory at the start, or half of the memory "
           "that the process may take.");
  AddBytes(app, "max_staging_bytes", &options->max_staging_bytes,
           "Memory for operands and answers. 0: a quarter of the memory that "
           "the process may take, 4 GiB at most.");
  AddBytes(app, "max_message_bytes", &options->max_message_bytes,
           "Largest request and answer.");
  AddOption(app, "max_n", &options->weights_limits.max_n,
            "Largest n (output features) of uploaded weights.");
  AddOption(app, "max_k", &options->weights_limits.max_k,
            "Largest k (input features) of uploaded weights.");
  AddOption(app, "max_uploads", &options->max_uploads,
            "Concurrent uploads; more are refused with RESOURCE_EXHAUSTED.");
  AddDuration(app, "upload_linger", &options->upload_linger,
              "Time for which an upload that was cut off can be continued. 0: "
              "none can.");
  AddOption(app, "max_layers", &options->max_layers,
            "Layers that the server holds; more are refused with "
            "RESOURCE_EXHAUSTED. Each takes 2 KiB of the budget beside its "
            "memory.");
  AddOption(app, "max_names", &options->max_names,
            "Names of all layers; more are refused with RESOURCE_EXHAUSTED. "
            "Each takes 384 bytes of the budget.");
  AddOption(app, "max_programs", &options->max_programs,
            "Programs that the server holds; more are refused with "
            "RESOURCE_EXHAUSTED. Each takes its bytes of the budget.");
  AddOption(app, "max_program_names", &options->max_program_names,
            "Names of all programs; more are refused with RESOURCE_EXHAUSTED. "
            "Each takes 384 bytes of the budget.");
  AddOption(app, "max_stream_requests", &options->stream.max_requests,
            "Requests of one GemmStream that may wait for their launch or to "
            "be sent; beyond that the stream is not read.");
  AddBytes(app, "max_stream_bytes", &options->stream.max_bytes,
           "Operand bytes of those requests; beyond that the stream is not "
           "read.");
  AddBytes(app, "max_stream_operand_bytes", &options->stream.max_operand_bytes,
           "Largest A, and largest C, of a GemmStream's request.");
  AddOption(app, "max_streams", &options->max_streams,
            "Concurrent GemmStreams, half of them of one client; more are "
            "refused with RESOURCE_EXHAUSTED.");
  AddBytes(app, "max_client_staging_bytes", &options->max_client_staging_bytes,
           "Operand bytes of one client's requests and unread answers; more "
           "are refused with RESOURCE_EXHAUSTED. 0: half of the staging "
           "memory.");
}

void AddStateFlags(CLI::App* app, ServerOptions* options) {
  AddOption(app, "state_dir", &options->state_dir,
            "Folder in which layers and their names outlive the server; made "
            "if it is not there. Empty: nothing does.");
  AddBytes(app, "state_bytes", &options->state_bytes,
           "Bytes of the layers' files in that folder; uploads beyond them are "
           "refused with RESOURCE_EXHAUSTED. 0: no bound but the disk's.");
  AddBytes(app, "state_image_bytes", &options->state_image_bytes,
           "Bytes of images in that folder: copies of layers as the backend "
           "has repacked them, which are read at the disk's rate. 0: none; "
           "layers are decoded and repacked again.");
  AddOption(app, "pin_names", &options->pin_names,
            "Names whose layers are read first from that folder, and stay in "
            "memory. May be given several times, or with commas.");
  AddDuration(app, "min_residency", &options->eviction.min_residency,
              "A layer that was used less long ago does not leave memory for "
              "another.");
  AddChoice(app, "ready", &options->ready,
            {{"all", ReadyWhen::kAll},
             {"pinned", ReadyWhen::kPinned},
             {"none", ReadyWhen::kNone}},
            "Layers that must have been read from that folder before health "
            "says SERVING: all that have room, those of --pin_names, or none. "
            "Requests for the others wait for them meanwhile.");
  AddOption(
      app, "keep_memory", &options->keep_memory,
      "Keeps layers in memory while no server runs: by \"systemd\", or by "
      "a qgemm_holder, whose socket's path this is. Needs --state_dir. "
      "Empty: the next server reads them from the disk.");
}

void AddProgressFlags(CLI::App* app, ServerOptions* options) {
  AddDuration(app, "idle_timeout", &options->idle_timeout,
              "Time without progress after which an upload, an operand that "
              "has come in part or an answer that is not read is given up.");
  AddBytes(app, "min_upload_bytes_per_second",
           &options->min_upload_bytes_per_second,
           "Least rate, over 10 s, of an upload and of a stream's operands "
           "that come in part. 0: none.");
}

void AddSchedulerFlags(CLI::App* app, ServerOptions* options) {
  SchedulerOptions* const scheduler = &options->scheduler;
  AddChoice(app, "batching", &options->batching, {{"on", true}, {"off", false}},
            "on: requests that wait for the same weights share a launch of up "
            "to 64 rows, whoever sent them; off: each has launches of its "
            "own.");
  AddChoice(app, "batch_policy", &scheduler->policy.order,
            {{"oldest", BatchOrder::kOldest},
             {"chase", BatchOrder::kChase},
             {"fullest", BatchOrder::kFullest}},
            "Weights to serve first when nothing is urgent: oldest, the "
            "longest wait; chase, those whose clients are the fewest layers "
            "behind others of the same model, so that they catch up and share "
            "launches; fullest, those that the most rows wait for.");
  AddDuration(app, "batch_age_cap", &scheduler->policy.age_cap,
              "A Gemm request that has waited longer goes before younger ones "
              "of any priority of the same client, at every other launch at "
              "least.");
  AddOption(app, "max_queued_requests", &scheduler->max_queued_requests,
            "Gemm requests that may wait; more are refused with "
            "RESOURCE_EXHAUSTED, and so are those of a user or address that "
            "would fill more of the queue than it leaves free.");
  AddBytes(app, "max_queued_bytes", &scheduler->max_queued_bytes,
           "Operand bytes of waiting Gemm requests, shared and refused in the "
           "same way.");
  AddOption(app, "max_client_queued_rows", &scheduler->max_client_queued_rows,
            "Rows of the waiting Gemm requests of one user or address, "
            "whatever their client_id; more are refused with "
            "RESOURCE_EXHAUSTED. 0: no quota.");
  AddBytes(app, "max_client_queued_bytes", &scheduler->max_client_queued_bytes,
           "Operand bytes of the waiting Gemm requests of one user or address; "
           "more are refused with RESOURCE_EXHAUSTED. 0: no quota.");
}

void AddOtherFlags(CLI::App* app, ServerOptions* options) {
  AddSwitch(app, "enable_echo", &options->enable_echo,
            "Offers qgemm.v1.QgemmDebug/Echo, for measurements. Its answers "
            "hold what operands of any client left in memory.");
  AddSwitch(app, "enable_freeze", &options->enable_freeze,
            "Offers qgemm.v1.QgemmDebug/Freeze, for tests. Any client can hold "
            "all launches by it for up to a minute.");
  AddSwitch(app, "enable_faults", &options->enable_faults,
            "Offers qgemm.v1.QgemmDebug/InjectFault, for tests. Any client can "
            "make the server fail by it, for good.");
  AddDuration(app, "launch_timeout", &options->launch_timeout,
              "Time after which a launch that neither ends nor makes progress "
              "is taken to hang: its requests end with UNAVAILABLE and the "
              "server has failed. "
              "0: never.");
  AddSwitch(app, "exit_on_gpu_failure", &options->exit_on_gpu_failure,
            "Ends the process, with exit code 3, once its device is lost or a "
            "launch hangs; false: it refuses all calls until it is ended.");
  AddOption(app, "ready_names", &options->ready_names,
            "Names of weights and programs without which the server is not "
            "ready: health says NOT_SERVING until all have been bound. May be "
            "given several times, or with commas.");
  AddDuration(
      app, "drain_delay", &options->drain_delay,
      "Time for which calls are served on after SIGTERM or SIGINT, while "
      "health says NOT_SERVING, so that balancers leave first.");
  AddDuration(app, "drain_timeout", &options->drain_timeout,
              "Time that accepted requests may take after SIGTERM or SIGINT.");
  AddDuration(app, "slow_request", &options->slow_request,
              "Gemm requests that take this long or longer are logged. 0: "
              "none.");
  AddChoice(app, "log_format", &options->log_format,
            {{"text", LogFormat::kText}, {"json", LogFormat::kJson}},
            "Lines of the log on stderr: text, or a JSON object each.");
}

}  // namespace

std::unique_ptr<CLI::App> MakeServerApp(ServerOptions* options) {
  std::unique_ptr<CLI::App> app = flags::MakeApp(
      "Serves quantized matrix multiplication over gRPC.", "qgemm_server");
  AddAddressFlags(app.get(), options);
  AddTlsFlags(app.get(), &options->tls);
  AddConnectionFlags(app.get(), options);
  AddBackendFlags(app.get(), &options->backend);
  AddSizeFlags(app.get(), options);
  AddStateFlags(app.get(), options);
  AddProgressFlags(app.get(), options);
  AddSchedulerFlags(app.get(), options);
  AddOtherFlags(app.get(), options);
  return app;
}

}  // namespace qgemm
