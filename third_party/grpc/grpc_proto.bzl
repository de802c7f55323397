"""C++ code generation for one .proto file, with the system's protoc."""

def cc_grpc_proto(
        name,
        src,
        proto_root,
        services = True,
        imports = [],
        deps = [],
        **kwargs):
    """Generates and compiles the messages and service stubs of one file.

    Args:
      name: the cc_library to make.
      src: the .proto file, relative to this package.
      proto_root: the folder, relative to the workspace, that imports and
        C++ includes start from.
      services: whether the file declares a gRPC service.
      imports: the .proto files that it imports, relative to this package.
      deps: the libraries that this makes of them.
      **kwargs: passed to the cc_library.
    """
    stem = src[:-len(".proto")]
    messages = [stem + ".pb.h", stem + ".pb.cc"]
    stubs = [stem + ".grpc.pb.h", stem + ".grpc.pb.cc"] if services else []
    plugin = ("--grpc_out=$(RULEDIR) " +
              "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin "
              if services else "")
    native.genrule(
        name = name + "_codegen",
        srcs = [src] + imports,
        outs = messages + stubs,
        cmd = "/usr/bin/protoc --proto_path=" + proto_root +
              " --cpp_out=$(RULEDIR) " + plugin + "$(location " + src + ")",
    )
    generated = messages + stubs
    native.cc_library(
        name = name,
        srcs = [f for f in generated if f.endswith(".cc")],
        hdrs = [f for f in generated if f.endswith(".h")],
        copts = ["-Wno-unused-parameter"],
        includes = ["."],
        deps = ["//third_party/grpc"] + deps,
        **kwargs
    )
