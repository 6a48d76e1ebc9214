"builtin.module"() <{sym_name = "jit_network"}> ({
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<8x6xf32>, tensor<20x1xf32>) -> (tensor<8x6xf32>, tensor<6xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<8x6xf32>, %arg1: tensor<20x1xf32>):
    %0 = "stablehlo.constant"() <{value = dense<[1, 2, 1, 7, 5, 2, 1, 7, 6, 2, 5, 3, 3, 6, 4, 4, 5, 6, 2, 1]> : tensor<20xi32>}> : () -> tensor<20xi32>
    %1 = "stablehlo.constant"() <{value = dense<false> : tensor<20xi1>}> : () -> tensor<20xi1>
    %2 = "stablehlo.constant"() <{value = dense<[[0.0121059166, 0.402956277, -0.260162383, 0.00474224892, -0.292950898, 0.257575482], [-0.185938224, 0.951991379, 0.308497846, -0.630218744, 0.420799941, 0.0851210951], [-0.154911965, 0.316848487, -0.412032217, 0.0713502392, -0.11170543, 0.363152474], [-0.0877582132, 0.557403147, 0.661350548, 0.00207474851, 0.192283586, 0.0580597445], [0.622873545, 3.913470e-01, -0.0632972419, 0.0598974489, -0.379632592, -0.0928900167], [-0.128085613, -0.387767941, 0.719724953, -0.360771149, -0.157401279, -0.226561248]]> : tensor<6x6xf32>}> : () -> tensor<6x6xf32>
    %3 = "stablehlo.constant"() <{value = dense<[2, 7, 4, 1, 5, 6, 4, 6, 7, 5, 7, 4, 3, 3, 2, 0, 4, 3, 0, 5]> : tensor<20xi32>}> : () -> tensor<20xi32>
    %4 = "stablehlo.constant"() <{value = dense<false> : tensor<20xi1>}> : () -> tensor<20xi1>
    %5 = "stablehlo.constant"() <{value = dense<[[0.122820809, -0.0394456424, 0.456548631, 0.230720699, 0.401597768, -0.374020249], [-0.352641642, 0.0237584878, -0.268734962, 0.280124456, -0.477709919, -0.550142765], [0.599097848, -0.600291669, -0.552076817, 0.224097252, 0.3995637, -0.331765085], [0.352900147, 0.839377045, 0.37843141, -0.270347238, -0.129441097, -0.906783819], [0.283094853, -0.314239323, 0.154831663, 0.150847688, -0.699139416, 0.207380012], [-0.647333741, 0.119592778, -0.241714358, -0.0404958613, 0.774134039, 0.27541104]]> : tensor<6x6xf32>}> : () -> tensor<6x6xf32>
    %6 = "stablehlo.constant"() <{value = dense<false> : tensor<20xi1>}> : () -> tensor<20xi1>
    %7 = "stablehlo.constant"() <{value = dense<false> : tensor<20xi1>}> : () -> tensor<20xi1>
    %8 = "stablehlo.constant"() <{value = dense<[0, 3]> : tensor<2xi32>}> : () -> tensor<2xi32>
    %9 = "stablehlo.constant"() <{value = dense<false> : tensor<2xi1>}> : () -> tensor<2xi1>
    %10 = "stablehlo.constant"() <{value = dense<8> : tensor<i32>}> : () -> tensor<i32>
    %11 = "stablehlo.broadcast_in_dim"(%10) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<20xi32>
    %12 = "stablehlo.add"(%0, %11) : (tensor<20xi32>, tensor<20xi32>) -> tensor<20xi32>
    %13 = "stablehlo.select"(%1, %12, %0) : (tensor<20xi1>, tensor<20xi32>, tensor<20xi32>) -> tensor<20xi32>
    %14 = "stablehlo.broadcast_in_dim"(%13) <{broadcast_dimensions = array<i64: 0>}> : (tensor<20xi32>) -> tensor<20x1xi32>
    %15 = "stablehlo.gather"(%arg0, %14) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 6>}> : (tensor<8x6xf32>, tensor<20x1xi32>) -> tensor<20x6xf32>
    %16 = "stablehlo.dot_general"(%15, %2) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<20x6xf32>, tensor<6x6xf32>) -> tensor<20x6xf32>
    %17 = "stablehlo.multiply"(%16, %16) : (tensor<20x6xf32>, tensor<20x6xf32>) -> tensor<20x6xf32>
    %18 = "stablehlo.multiply"(%17, %16) : (tensor<20x6xf32>, tensor<20x6xf32>) -> tensor<20x6xf32>
    %19 = "stablehlo.constant"() <{value = dense<4.471500e-02> : tensor<f32>}> : () -> tensor<f32>
    %20 = "stablehlo.broadcast_in_dim"(%19) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<20x6xf32>
    %21 = "stablehlo.multiply"(%20, %18) : (tensor<20x6xf32>, tensor<20x6xf32>) -> tensor<20x6xf32>
    %22 = "stablehlo.add"(%16, %21) : (tensor<20x6xf32>, tensor<20x6xf32>) -> tensor<20x6xf32>
    %23 = "stablehlo.constant"() <{value = dense<0.797884583> : tensor<f32>}> : () -> tensor<f32>
    %24 = "stablehlo.broadcast_in_dim"(%23) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<20x6xf32>
    %25 = "stablehlo.multiply"(%24, %22) : (tensor<20x6xf32>, tensor<20x6xf32>) -> tensor<20x6xf32>
    %26 = "stablehlo.tanh"(%25) : (tensor<20x6xf32>) -> tensor<20x6xf32>
    %27 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %28 = "stablehlo.broadcast_in_dim"(%27) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<20x6xf32>
    %29 = "stablehlo.add"(%28, %26) : (tensor<20x6xf32>, tensor<20x6xf32>) -> tensor<20x6xf32>
    %30 = "stablehlo.constant"() <{value = dense<5.000000e-01> : tensor<f32>}> : () -> tensor<f32>
    %31 = "stablehlo.broadcast_in_dim"(%30) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<20x6xf32>
    %32 = "stablehlo.multiply"(%31, %29) : (tensor<20x6xf32>, tensor<20x6xf32>) -> tensor<20x6xf32>
    %33 = "stablehlo.multiply"(%16, %32) : (tensor<20x6xf32>, tensor<20x6xf32>) -> tensor<20x6xf32>
    %34 = "stablehlo.broadcast_in_dim"(%arg1) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<20x1xf32>) -> tensor<20x6xf32>
    %35 = "stablehlo.multiply"(%33, %34) : (tensor<20x6xf32>, tensor<20x6xf32>) -> tensor<20x6xf32>
    %36 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %37 = "stablehlo.broadcast_in_dim"(%36) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<8x6xf32>
    %38 = "stablehlo.constant"() <{value = dense<8> : tensor<i32>}> : () -> tensor<i32>
    %39 = "stablehlo.broadcast_in_dim"(%38) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<20xi32>
    %40 = "stablehlo.add"(%3, %39) : (tensor<20xi32>, tensor<20xi32>) -> tensor<20xi32>
    %41 = "stablehlo.select"(%4, %40, %3) : (tensor<20xi1>, tensor<20xi32>, tensor<20xi32>) -> tensor<20xi32>
    %42 = "stablehlo.broadcast_in_dim"(%41) <{broadcast_dimensions = array<i64: 0>}> : (tensor<20xi32>) -> tensor<20x1xi32>
    %43 = "stablehlo.scatter"(%37, %42, %35) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg8: tensor<f32>, %arg9: tensor<f32>):
      %96 = "stablehlo.add"(%arg8, %arg9) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%96) : (tensor<f32>) -> ()
    }) : (tensor<8x6xf32>, tensor<20x1xi32>, tensor<20x6xf32>) -> tensor<8x6xf32>
    %44 = "stablehlo.dot_general"(%arg0, %5) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<8x6xf32>, tensor<6x6xf32>) -> tensor<8x6xf32>
    %45 = "stablehlo.add"(%44, %43) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %46 = "stablehlo.tanh"(%45) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %47 = "stablehlo.constant"() <{value = dense<8> : tensor<i32>}> : () -> tensor<i32>
    %48 = "stablehlo.broadcast_in_dim"(%47) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<20xi32>
    %49 = "stablehlo.add"(%0, %48) : (tensor<20xi32>, tensor<20xi32>) -> tensor<20xi32>
    %50 = "stablehlo.select"(%6, %49, %0) : (tensor<20xi1>, tensor<20xi32>, tensor<20xi32>) -> tensor<20xi32>
    %51 = "stablehlo.broadcast_in_dim"(%50) <{broadcast_dimensions = array<i64: 0>}> : (tensor<20xi32>) -> tensor<20x1xi32>
    %52 = "stablehlo.gather"(%46, %51) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 6>}> : (tensor<8x6xf32>, tensor<20x1xi32>) -> tensor<20x6xf32>
    %53 = "stablehlo.dot_general"(%52, %2) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<20x6xf32>, tensor<6x6xf32>) -> tensor<20x6xf32>
    %54 = "stablehlo.multiply"(%53, %53) : (tensor<20x6xf32>, tensor<20x6xf32>) -> tensor<20x6xf32>
    %55 = "stablehlo.multiply"(%54, %53) : (tensor<20x6xf32>, tensor<20x6xf32>) -> tensor<20x6xf32>
    %56 = "stablehlo.constant"() <{value = dense<4.471500e-02> : tensor<f32>}> : () -> tensor<f32>
    %57 = "stablehlo.broadcast_in_dim"(%56) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<20x6xf32>
    %58 = "stablehlo.multiply"(%57, %55) : (tensor<20x6xf32>, tensor<20x6xf32>) -> tensor<20x6xf32>
    %59 = "stablehlo.add"(%53, %58) : (tensor<20x6xf32>, tensor<20x6xf32>) -> tensor<20x6xf32>
    %60 = "stablehlo.constant"() <{value = dense<0.797884583> : tensor<f32>}> : () -> tensor<f32>
    %61 = "stablehlo.broadcast_in_dim"(%60) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<20x6xf32>
    %62 = "stablehlo.multiply"(%61, %59) : (tensor<20x6xf32>, tensor<20x6xf32>) -> tensor<20x6xf32>
    %63 = "stablehlo.tanh"(%62) : (tensor<20x6xf32>) -> tensor<20x6xf32>
    %64 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %65 = "stablehlo.broadcast_in_dim"(%64) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<20x6xf32>
    %66 = "stablehlo.add"(%65, %63) : (tensor<20x6xf32>, tensor<20x6xf32>) -> tensor<20x6xf32>
    %67 = "stablehlo.constant"() <{value = dense<5.000000e-01> : tensor<f32>}> : () -> tensor<f32>
    %68 = "stablehlo.broadcast_in_dim"(%67) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<20x6xf32>
    %69 = "stablehlo.multiply"(%68, %66) : (tensor<20x6xf32>, tensor<20x6xf32>) -> tensor<20x6xf32>
    %70 = "stablehlo.multiply"(%53, %69) : (tensor<20x6xf32>, tensor<20x6xf32>) -> tensor<20x6xf32>
    %71 = "stablehlo.broadcast_in_dim"(%arg1) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<20x1xf32>) -> tensor<20x6xf32>
    %72 = "stablehlo.multiply"(%70, %71) : (tensor<20x6xf32>, tensor<20x6xf32>) -> tensor<20x6xf32>
    %73 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %74 = "stablehlo.broadcast_in_dim"(%73) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<8x6xf32>
    %75 = "stablehlo.constant"() <{value = dense<8> : tensor<i32>}> : () -> tensor<i32>
    %76 = "stablehlo.broadcast_in_dim"(%75) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<20xi32>
    %77 = "stablehlo.add"(%3, %76) : (tensor<20xi32>, tensor<20xi32>) -> tensor<20xi32>
    %78 = "stablehlo.select"(%7, %77, %3) : (tensor<20xi1>, tensor<20xi32>, tensor<20xi32>) -> tensor<20xi32>
    %79 = "stablehlo.broadcast_in_dim"(%78) <{broadcast_dimensions = array<i64: 0>}> : (tensor<20xi32>) -> tensor<20x1xi32>
    %80 = "stablehlo.scatter"(%74, %79, %72) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg6: tensor<f32>, %arg7: tensor<f32>):
      %95 = "stablehlo.add"(%arg6, %arg7) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%95) : (tensor<f32>) -> ()
    }) : (tensor<8x6xf32>, tensor<20x1xi32>, tensor<20x6xf32>) -> tensor<8x6xf32>
    %81 = "stablehlo.dot_general"(%46, %5) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<8x6xf32>, tensor<6x6xf32>) -> tensor<8x6xf32>
    %82 = "stablehlo.add"(%81, %80) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %83 = "stablehlo.tanh"(%82) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %84 = "stablehlo.constant"() <{value = dense<8> : tensor<i32>}> : () -> tensor<i32>
    %85 = "stablehlo.broadcast_in_dim"(%84) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<2xi32>
    %86 = "stablehlo.add"(%8, %85) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
    %87 = "stablehlo.select"(%9, %86, %8) : (tensor<2xi1>, tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
    %88 = "stablehlo.broadcast_in_dim"(%87) <{broadcast_dimensions = array<i64: 0>}> : (tensor<2xi32>) -> tensor<2x1xi32>
    %89 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %90 = "stablehlo.broadcast_in_dim"(%89) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x6xf32>
    %91 = "stablehlo.scatter"(%83, %88, %90) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      "stablehlo.return"(%arg5) : (tensor<f32>) -> ()
    }) : (tensor<8x6xf32>, tensor<2x1xi32>, tensor<2x6xf32>) -> tensor<8x6xf32>
    %92 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %93 = "stablehlo.reduce"(%91, %92) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %94 = "stablehlo.maximum"(%arg2, %arg3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%94) : (tensor<f32>) -> ()
    }) : (tensor<8x6xf32>, tensor<f32>) -> tensor<6xf32>
    "func.return"(%83, %93) : (tensor<8x6xf32>, tensor<6xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
