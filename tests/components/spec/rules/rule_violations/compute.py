"""Violations of the rules about devices, Ray and streaming."""

from rule_violations.manifest import Violation

VIOLATIONS: list[Violation] = [
    (
        "trainers_and_samplers_need_ray",
        ("compute={trainers: {count: 2}, samplers: {count: 2}}",),
        ["spec.compute.trainers", "spec.compute.samplers"],
    ),
    ("compile_needs_ray", ("update.compile=true",), ["spec.update.compile"]),
    (
        "compile_needs_our_model",
        ("compute.ray=embedded", "update.compile=true", "model.implementation=transformers"),
        ["spec.update.compile"],
    ),
    (
        "workers_are_not_for_ray",
        ("compute={ray: embedded, workers: 2}",),
        ["spec.compute.workers"],
    ),
    *(
        (
            "device_is_not_for_ray",
            (f"compute={{ray: {ray}, device: {device}}}",),
            ["spec.compute.device"],
        )
        for ray in ("embedded", "'head:6379'", "cluster")
        for device in ("cpu", "cuda")
    ),
    (
        "ray_has_one_driver",
        ("compute={ray: 'head:6379', placement: disaggregated}",),
        ["spec.compute.placement"],
    ),
    (
        "streams_are_not_refilled",
        (
            "compute.ray=embedded",
            "rollout.maxStaleness=1",
            "algorithm={refillRounds: 1}",
        ),
        ["spec.algorithm.refillRounds"],
    ),
    (
        "interrupt_needs_streaming",
        ("compute.ray=embedded", "rollout.interrupt=continue"),
        ["spec.rollout.interrupt"],
    ),
    (
        "tensor_parallel_needs_vllm",
        ("compute={ray: embedded, samplers: {gpus: 3, tensorParallel: 3}}",),
        ["spec.compute.samplers.tensorParallel"],
    ),
    (
        "sampler_gpus_are_its_tensor_parallel_size",
        ("compute={ray: embedded, samplers: {gpus: 2}}",),
        ["spec.compute.samplers.gpus"],
    ),
    (
        "engine_settings_need_vllm",
        ("compute={ray: embedded, samplers: {memoryShare: 0.5, maxBatch: 8, eager: true}}",),
        [f"spec.compute.samplers.{name}" for name in ("memoryShare", "maxBatch", "eager")],
    ),
    (
        "tensor_parallel_divides_heads",
        (
            "compute={ray: embedded, samplers: {gpus: 2, tensorParallel: 2}}",
            "rollout.engine=vllm",
        ),
        ["spec.compute.samplers.tensorParallel"],
    ),
    (
        "trainers_and_samplers_need_ray",
        ("compute={handOver: ray, sparseHandOver: true}", "model.dtype=bfloat16"),
        ["spec.compute.handOver", "spec.compute.sparseHandOver"],
    ),
    (
        "nccl_hand_over_needs_gpus_and_vllm",
        ("compute={ray: embedded, handOver: nccl, trainers: {gpus: 1}, samplers: {gpus: 1}}",),
        ["spec.compute.handOver"],
    ),
    (
        "sparse_hand_over_needs_rounded_weights",
        ("compute={ray: embedded, sparseHandOver: true}", "rollout.engine=vllm"),
        ["spec.compute.sparseHandOver", "spec.compute.sparseHandOver"],
    ),
    (
        "trainers_and_samplers_need_ray",
        ("compute={shareGpus: true}",),
        ["spec.compute.shareGpus"],
    ),
    (
        "shared_gpus_are_used_in_turns",
        (
            "compute={ray: cluster, shareGpus: true, trainers: {count: 4}, "
            "samplers: {count: 2, perPod: 2}}",
            "rollout.maxStaleness=1",
        ),
        [
            "spec.rollout.engine",
            "spec.rollout.maxStaleness",
            "spec.compute.trainers.gpus",
            "spec.compute.samplers.gpus",
            "spec.compute.samplers.count",
            "spec.compute.samplers.perPod",
        ],
    ),
    (
        "nccl_hand_over_needs_gpus_and_vllm",
        (
            "compute={ray: embedded, shareGpus: true, handOver: nccl, sparseHandOver: true, "
            "trainers: {gpus: 1}, samplers: {gpus: 1}}",
            "rollout.engine=vllm",
            "model.dtype=bfloat16",
        ),
        ["spec.compute.handOver", "spec.compute.sparseHandOver"],
    ),
]
